"""Impressions and clicks, which make users' profiles."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Body, Request
from pydantic import BaseModel, ConfigDict, Field, Tag

from capse.service.fields import Time, one_or_many
from capse.service.guard import GuardedRoute, charge, needs, require_user
from capse.service.limits import EVENTS_A_REQUEST, MAX_EVENTS
from capse.service.search_model import SearchModel
from capse.service.state import service_of
from capse.service.store import Event, Outcome

router = APIRouter(prefix="/v1", tags=["search"], route_class=GuardedRoute)


class SentEvent(Event):
    """What was shown, what was clicked, or how long a click lasted. Sent again, the same event changes nothing."""

    time: Time = Field(description="Seconds since 1970, or ISO 8601 text", examples=[1700000000.25])

    def event(self, models: Sequence[SearchModel]) -> Event:
        """What is stored of it: of a document that every run knows, neither title nor text."""
        event = Event.model_construct(**vars(self))
        document = self.document
        known = document is not None and all(model.knows(document) for model in models)
        return event.model_copy(update={"title": "", "text": None}) if known else event


class EventBulk(BaseModel):
    """Many events, of which all or none are stored."""

    model_config = ConfigDict(extra="forbid")

    events: list[SentEvent] = Field(min_length=1, max_length=MAX_EVENTS)


OneOrMany = Annotated[Annotated[SentEvent, Tag("one")] | Annotated[EventBulk, Tag("many")], one_or_many("events")]


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
    "time": 1700000000.25,
    "query": "shortest path",
    "documents": ["d1", "d7", "d3"],
}
_CLICK = {"id": "e2", "kind": "click", "user": "ada", "session": "s1", "time": "2023-11-14T22:13:24Z", "document": "d7"}
_DWELL = {"id": "e3", "kind": "dwell", "user": "ada", "session": "s1", "time": 1700000049, "click": "e2"}
_EXAMPLES = {
    "click": {"summary": "A click", "value": _CLICK},
    "many": {"summary": "Many events", "value": {"events": [_SHOWN, _CLICK, _DWELL | {"dwell": 45.0}]}},
}


@router.post("/events", **needs("events", "no-such-model", "conflict", example=Outcomes))
async def events(request: Request, sent: Annotated[OneOrMany, Body(openapi_examples=_EXAMPLES)]) -> Outcomes:
    """Store events. They are on disk when the answer comes, and the user's next list is ranked with them.

    A click counts while its dwell is not known or 30 seconds or more, and while it is the last of its session. One that
    turns out shorter is taken back. Send title and text with a click on a document that the run may not know: it is
    remembered by the beginning of its text.
    """
    service = service_of(request)
    models = service.models
    models.require_search()
    every = sent.events if isinstance(sent, EventBulk) else [sent]
    for one in every:
        require_user(request, one.user)
    charge(request, len(every), EVENTS_A_REQUEST)
    stored = [one.event(models.searching) for one in every]
    outcomes = await asyncio.to_thread(service.require_store().add, stored)
    if service.recorder is not None:
        service.recorder.clicks.add([one for one, of in zip(stored, outcomes, strict=True) if of == "accepted"])
    return Outcomes(outcomes=outcomes)
