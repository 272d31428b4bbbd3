"""What is known of a user, and forgetting it."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from capse.search.serving.reranker import RECENT
from capse.search.times import to_seconds
from capse.search.users.user_state import UserState
from capse.service.guard import GuardedRoute, needs, require_user
from capse.service.limits import MAX_ID
from capse.service.paths import any_text
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


class UsersBody(BaseModel):
    """Users of whom something is known."""

    users: list[str] = Field(description="Those who came last", examples=[["ada", "grace"]])


class DeletedBody(BaseModel):
    """What was removed."""

    events: int = Field(examples=[17])
    keys: int = Field(description="API keys that could speak for this user only", examples=[0])
    runs: bool = Field(
        description="Whether no file of the runs that are served names the user any more; the log says why not",
        examples=[True],
    )


@router.get("/users", **needs("users", "no-such-model", body=False, example=UsersBody))
async def users(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=100, description="How many at most", examples=[10])] = 10,
) -> UsersBody:
    """A few users of whom something is remembered, to try `/v1/rerank` with. A user's own key sees that user alone."""
    service = service_of(request)
    service.models.require_search()
    key = request.state.key
    if key is not None and key.user is not None:
        return UsersBody(users=[key.user])
    return UsersBody(users=await asyncio.to_thread(service.require_store().latest_users, limit))


@router.get(
    "/users/" + any_text("user"),
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
    "/users/" + any_text("user"),
    response_model=DeletedBody,
    **needs("users", "no-such-model", body=False, example=DeletedBody),
)
async def delete_user(request: Request, user: User) -> JSONResponse:
    """Remove every trace of a user: events, profile, the keys that could speak for this user only, and what the run
    that is served knows of the user from training.

    No run tells the user from a stranger from now on, this one or any that is served with the same database later. It
    is no error to delete somebody of whom nothing is stored.
    """
    service = service_of(request)
    service.models.require_search()
    require_user(request, user)
    gone = await asyncio.to_thread(service.require_store().delete_user, user)
    runs = await service.clean_runs()
    return JSONResponse({"events": gone.events, "keys": gone.keys, "runs": runs})


def _recent(state: UserState | None) -> list[dict[str, Any]]:
    """The latest clicks, as they are told."""
    clicks = [] if state is None else state.clicks[-RECENT:]
    return [{"id": one.document, "session": one.session, "time": to_seconds(one.time)} for one in clicks]


def _described(model: SearchModel, store: Store, user: str) -> dict[str, Any] | None:
    found = store.describe_user(user)
    if found is None:
        return None
    state, known_as = found.state, "" if store.is_forgotten(user) else user
    content = asdict(replace(found, state=None))
    del content["state"]
    return content | {
        "first": to_seconds(found.first),
        "last": to_seconds(found.last),
        "recent": _recent(state),
        "interests": [asdict(interest) for interest in model.interests(known_as, state)],
    }
