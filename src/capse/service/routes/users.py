"""What is known of a user, and forgetting it."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from capse.search.times import to_seconds
from capse.service.guard import GuardedRoute, needs, require_user
from capse.service.limits import MAX_ID
from capse.service.problems import Problem
from capse.service.search_model import SearchModel
from capse.service.state import service_of
from capse.service.store import Store

router = APIRouter(prefix="/v1", tags=["search"], route_class=GuardedRoute)

User = Annotated[str, Path(min_length=1, max_length=MAX_ID, description="The user's id", examples=["ada"])]


class PastDocumentBody(BaseModel):
    """A document that satisfied the user."""

    id: str = Field(examples=["d7"])
    session: str = Field(examples=["s1"])
    time: float = Field(description="Seconds since 1970", examples=[1700000004.0])


class InterestBody(BaseModel):
    """A topic of the user's profile."""

    topic: int = Field(examples=[17])
    share: float = Field(examples=[0.31])
    words: list[str] = Field(examples=[["graph", "path", "node"]])


class UserBody(BaseModel):
    """What is stored of a user."""

    user: str = Field(examples=["ada"])
    impressions: int = Field(examples=[12])
    clicks: int = Field(examples=[5])
    satisfied: int = Field(description="Clicks that count", examples=[4])
    sessions: int = Field(examples=[3])
    first: float = Field(description="The time of the first event, seconds since 1970", examples=[1700000000.0])
    last: float = Field(description="The time of the last one", examples=[1700000049.0])
    recent: list[PastDocumentBody] = Field(description="The documents remembered, the latest last")
    interests: list[InterestBody] = Field(description="The strongest topics of the profile, where vectors are topics")


class DeletedBody(BaseModel):
    """What was removed."""

    events: int = Field(examples=[17])
    keys: int = Field(description="API keys that could speak for this user only", examples=[0])


@router.get(
    "/users/{user:path}",
    response_model=UserBody,
    **needs("users", "no-such-model", "not-found", body=False, example=UserBody),
)
async def user(request: Request, user: User) -> JSONResponse:
    """What is stored of a user: counts, the documents remembered, and the topics of the profile."""
    service = service_of(request)
    model = service.models.require_search()
    require_user(request, user)
    found = await asyncio.to_thread(_described, model, service.require_store(), user)
    if found is None:
        raise Problem("not-found", "nothing is stored of this user", "check the id; events make users")
    return JSONResponse(found)


@router.delete(
    "/users/{user:path}",
    response_model=DeletedBody,
    **needs("users", "no-such-model", body=False, example=DeletedBody),
)
async def delete_user(request: Request, user: User) -> JSONResponse:
    """Remove every trace of a user: events, profile, and the keys that could speak for this user only.

    It is no error to delete somebody of whom nothing is stored.
    """
    service = service_of(request)
    service.models.require_search()
    require_user(request, user)
    gone = await asyncio.to_thread(service.require_store().delete_user, user)
    return JSONResponse({"events": gone.events, "keys": gone.keys})


def _described(model: SearchModel, store: Store, user: str) -> dict[str, Any] | None:
    found = store.describe_user(user)
    if found is None:
        return None
    content = asdict(found)
    state = content.pop("state")
    return content | {
        "first": to_seconds(found.first),
        "last": to_seconds(found.last),
        "recent": [one | {"time": to_seconds(one["time"])} for one in (state or {}).get("recent", [])],
        "interests": [asdict(interest) for interest in model.interests(state)],
    }
