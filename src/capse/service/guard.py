"""Who may: keys, scopes and rates, before a body is read."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from capse.service.bodies import BoundedRequest, require_json
from capse.service.problems import Problem, documented

SCOPES = {
    "read": "look up names, predict, score and explain",
    "rerank": "re-rank documents for a user",
    "events": "send impressions and clicks",
    "users": "read and delete profiles",
    "metrics": "read /metrics",
    "admin": "load runs anew",
}
_WITH_BODY = ("POST", "PUT", "PATCH")


def needs(scope: str, *kinds: str, body: bool = True) -> dict[str, Any]:
    """What a route says of itself: the scope that its callers need, and the problems that it may answer."""
    assert scope in SCOPES
    always = ("no-key", "forbidden", "wrong-host", "invalid", "too-many-requests")
    of_bodies = ("malformed-json", "too-slow", "too-large", "not-json") if body else ()
    return {
        "responses": documented(*always, *of_bodies, *kinds),
        "openapi_extra": {"security": [{"key": [scope]}], "x-scope": scope},
    }


class GuardedRoute(APIRoute):
    """A route that lets nobody in, and reads no body, before the caller's key has been seen."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        scope = (self.openapi_extra or {}).get("x-scope")

        async def guarded(request: Request) -> Response:
            request = BoundedRequest(request.scope, request.receive)
            if scope is not None:
                await request.app.state.service.guard.admit(request, scope)
            if request.method in _WITH_BODY and self.body_field is not None:
                require_json(request)
                await request.json()  # here, since FastAPI would hide why a body cannot be read
            return await handler(request)

        return guarded


class Guard:
    """Admits requests."""

    def __init__(self, require_keys: bool) -> None:
        self.require_keys = require_keys

    async def admit(self, request: Request, scope: str) -> None:
        """Note the caller's key in ``request.state``, or raise the Problem that keeps them out."""
        request.state.key = None
        if self.require_keys:
            raise Problem("no-key", "no API key was given", "send it as 'Authorization: Bearer KEY'")
