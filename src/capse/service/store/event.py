"""Events: what was shown, what was clicked, how long somebody stayed."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from capse.service.fields import DocumentText, Dwell, Id, Microseconds, Query, Session, Title, UserId
from capse.service.limits import MAX_SHOWN

Kind = Literal["impression", "click", "dwell", "view", "cart", "purchase", "like", "dislike"]
ACTIONS: tuple[Kind, ...] = ("view", "cart", "purchase", "like", "dislike")

_NEEDED: dict[Kind, set[str]] = {"impression": {"documents"}, "click": {"document"}, "dwell": {"click", "dwell"}}
_NEEDED |= {kind: {"document"} for kind in ACTIONS}
_ALLOWED: dict[Kind, set[str]] = {"impression": {"query"}, "click": {"query", "dwell", "title", "text"}, "dwell": set()}
_ALLOWED |= {kind: {"query"} for kind in ACTIONS}


class Event(BaseModel):
    """One event. The same event may be sent again: its id says that it is the same, among those of its user."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Id = Field(description="The sender's, unique among the user's events", examples=["e2"])
    kind: Kind = Field(
        description="impression: a list was shown; click: a document was opened; dwell: how long a click lasted; "
        "view, cart, purchase, like, dislike: what else was done with a document",
        examples=["click"],
    )
    user: UserId = Field(examples=["ada"])
    session: Session = Field("", examples=["s1"])
    time: Microseconds = Field(description="Microseconds since 1970")
    query: Query = Field("", description="Of an impression, or of what was done then", examples=["shortest path"])
    documents: tuple[Id, ...] = Field(
        (), max_length=MAX_SHOWN, description="Of an impression: what was shown, in that order"
    )
    document: Id | None = Field(None, description="Of a click, a view, a cart and so on", examples=["d7"])
    click: Id | None = Field(None, description="Of a dwell: the click's id", examples=[None])
    dwell: Dwell | None = Field(
        None, description="Seconds; of a dwell, and of a click where they are known", examples=[42.0]
    )

    title: Title = Field("", description="Of a clicked document that the run does not know")
    text: DocumentText | None = Field(None, description="The same; its beginning is remembered")

    @model_validator(mode="after")
    def _has_what_its_kind_has(self) -> Self:
        needed = _NEEDED[self.kind]
        for field in ("query", "documents", "document", "click", "dwell", "title", "text"):
            given = getattr(self, field) not in (None, "", ())
            if given and field not in needed | _ALLOWED[self.kind]:
                raise ValueError(f"an event of kind {self.kind} has no '{field}': leave it out")
            if field in needed and not given:
                raise ValueError(f"an event of kind {self.kind} needs '{field}'")
        return self
