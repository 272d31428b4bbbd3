"""Impressions and clicks, which make users' profiles."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Request
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from capse.search.reranker import ShownDocument
from capse.service.guard import GuardedRoute, needs, require_user
from capse.service.routes.rerank import Id, Microseconds
from capse.service.settings import MAX_DOCUMENT, MAX_EVENTS, MAX_ID, MAX_SHOWN, MAX_TEXT
from capse.service.state import service_of
from capse.service.store import Event, Outcome

router = APIRouter(prefix="/v1", tags=["search"], route_class=GuardedRoute)


class SentEvent(BaseModel):
    """What was shown, what was clicked, or how long a click lasted. Sent again, the same event changes nothing."""

    model_config = ConfigDict(extra="forbid")

    id: Id = Field(description="The sender's, unique among all events", examples=["e2"])
    kind: Literal["impression", "click", "dwell"] = Field(examples=["click"])
    user: Id = Field(examples=["ada"])
    session: str = Field("", max_length=MAX_ID, examples=["s1"])
    time: Microseconds = Field(description="Microseconds since 1970", examples=[1700000000000000])
    query: str = Field("", max_length=MAX_TEXT, examples=["shortest path"])
    documents: list[Id] = Field([], max_length=MAX_SHOWN, description="Of an impression: what was shown, in order")
    document: Id | None = Field(None, description="Of a click", examples=["d7"])
    click: Id | None = Field(None, description="Of a dwell: the click's id", examples=[None])
    dwell: float | None = Field(
        None, ge=0, le=1e9, description="Seconds; of a dwell, and of a click where they are known", examples=[42.0]
    )
    title: str = Field("", max_length=MAX_TEXT, description="Of a clicked document that the run does not know")
    text: str | None = Field(None, max_length=MAX_DOCUMENT, description="The same; neither title nor text is stored")

    def event(self) -> Event:
        content = self.model_dump(exclude={"title", "text"})
        return Event(**content | {"documents": tuple(self.documents)})


class EventBulk(BaseModel):
    """Many events, of which all or none are stored."""

    model_config = ConfigDict(extra="forbid")

    events: list[SentEvent] = Field(min_length=1, max_length=MAX_EVENTS)


def _form(body: object) -> str:
    many = "events" in body if isinstance(body, dict) else isinstance(body, EventBulk)
    return "many" if many else "one"


OneOrMany = Annotated[Annotated[SentEvent, Tag("one")] | Annotated[EventBulk, Tag("many")], Discriminator(_form)]


class Outcomes(BaseModel):
    """What became of each event, in their order."""

    outcomes: list[Outcome] = Field(
        description="accepted: on disk now; repeated: it was before", examples=[["accepted", "repeated"]]
    )


_SHOWN = {
    "id": "e1",
    "kind": "impression",
    "user": "ada",
    "session": "s1",
    "time": 1700000000000000,
    "query": "shortest path",
    "documents": ["d1", "d7", "d3"],
}
_CLICK = {"id": "e2", "kind": "click", "user": "ada", "session": "s1", "time": 1700000004000000, "document": "d7"}
_DWELL = {"id": "e3", "kind": "dwell", "user": "ada", "session": "s1", "time": 1700000049000000, "click": "e2"}
_EXAMPLES = {
    "click": {"summary": "A click", "value": _CLICK},
    "many": {"summary": "Many events", "value": {"events": [_SHOWN, _CLICK, _DWELL | {"dwell": 45.0}]}},
}


@router.post("/events", **needs("events", "no-such-model", "conflict", example={"outcomes": ["accepted"]}))
async def events(request: Request, sent: Annotated[OneOrMany, Body(openapi_examples=_EXAMPLES)]) -> Outcomes:
    """Store events. They are on disk when the answer comes, and the user's next list is ranked with them.

    A click counts once it is satisfied: its dwell is 30 seconds or more, or not known. Where a dwell that comes later
    is shorter, the click is taken back.
    """
    service = service_of(request)
    model = service.models.require_search()
    every = sent.events if isinstance(sent, EventBulk) else [sent]
    for one in every:
        require_user(request, one.user)
    stored = [one.event() for one in every]
    new = [
        ShownDocument(one.document, one.title, one.text) for one in every if one.document and (one.title or one.text)
    ]

    def add() -> list[Outcome]:
        model.meet(new)
        return service.require_store().add(stored)

    return Outcomes(outcomes=await asyncio.to_thread(add))
