"""Events: what was shown, what was clicked, how long somebody stayed; and when a click counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from capse.service.fields import Dwell, Id, Microseconds, Query, Session
from capse.service.limits import MAX_SHOWN

Kind = Literal["impression", "click", "dwell"]

_NEEDED = {"impression": {"documents"}, "click": {"document"}, "dwell": {"click", "dwell"}}
_ALLOWED = {"impression": {"query"}, "click": {"query", "dwell"}, "dwell": set()}


class Event(BaseModel):
    """One event. The same event may be sent again: its id says that it is the same."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Id = Field(description="The sender's, unique among all events", examples=["e2"])
    kind: Kind = Field(
        description="impression: a list was shown; click: a document was opened; dwell: how long a click lasted",
        examples=["click"],
    )
    user: Id = Field(examples=["ada"])
    session: Session = Field("", examples=["s1"])
    time: Microseconds = Field(description="Microseconds since 1970")
    query: Query = Field("", description="Of an impression, and of a click", examples=["shortest path"])
    documents: tuple[Id, ...] = Field(
        (), max_length=MAX_SHOWN, description="Of an impression: what was shown, in that order"
    )
    document: Id | None = Field(None, description="Of a click", examples=["d7"])
    click: Id | None = Field(None, description="Of a dwell: the click's id", examples=[None])
    dwell: Dwell | None = Field(
        None, description="Seconds; of a dwell, and of a click where they are known", examples=[42.0]
    )

    @model_validator(mode="after")
    def _has_what_its_kind_has(self) -> Self:
        needed = _NEEDED[self.kind]
        for field in ("query", "documents", "document", "click", "dwell"):
            given = getattr(self, field) not in (None, "", ())
            if given and field not in needed | _ALLOWED[self.kind]:
                raise ValueError(f"an event of kind {self.kind} has no '{field}': leave it out")
            if field in needed and not given:
                raise ValueError(f"an event of kind {self.kind} needs '{field}'")
        return self


@dataclass(frozen=True)
class Satisfaction:
    """When a click counts: a dwell of 30 s or more (the paper's rule, as far as it can be known at the time).

    The paper also counts the last click of a session. Which that is, is only known once the session is over.

    >>> Satisfaction().counts(None), Satisfaction().counts(12.0), Satisfaction(without_dwell="wait").counts(None)
    (True, False, False)
    """

    seconds: float = 30.0  # the least dwell
    without_dwell: Literal["count", "wait"] = "count"  # a click whose dwell is unknown counts, or waits for its dwell

    def counts(self, dwell: float | None) -> bool:
        """Whether a click counts of which so much is known."""
        return self.without_dwell == "count" if dwell is None else dwell >= self.seconds
