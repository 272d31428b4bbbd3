"""Authorisation: keys, scopes and rate limits, checked before a body is read.

On a loopback address no key is needed unless asked for. Requests must then name the machine as their host: a page of
another site, to which a name server has given our address, could otherwise ask in its visitor's name.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from capse.service.bodies import BoundedRequest, require_json
from capse.service.problems import Problem, documented
from capse.service.rates import Buckets
from capse.service.settings import is_loopback
from capse.service.store import SCOPES, Key, Store

_WITH_BODY = ("POST", "PUT", "PATCH")
_REMEMBERED = 1.0  # seconds that a key is not looked up again: so long a revoked one may still be used
_MOST_KEYS = 10_000  # remembered at a time
_LONGEST_KEY = 200  # characters


def needs(scope: str, *kinds: str, body: bool = True, example: Any = None) -> dict[str, Any]:
    """What a route says of itself: the scope that its callers need, and what it may answer, with an example."""
    assert scope in SCOPES
    always = ("no-key", "forbidden", "wrong-host", "invalid", "too-many-requests", "unavailable")
    of_bodies = ("malformed-json", "too-slow", "too-large", "not-json") if body else ()
    return {
        "responses": documented(*always, *of_bodies, *kinds, example=example),
        "openapi_extra": {"security": [{"key": []}], "x-scope": scope},
    }


class GuardedRoute(APIRoute):
    """A route that lets nobody in, and reads no body, before the caller's key has been seen."""

    @property
    def needed_scope(self) -> str | None:
        """The scope that callers need; None: open to all."""
        return (self.openapi_extra or {}).get("x-scope")

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        scope = self.needed_scope

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
    """Admits requests. ``rates`` are shared by all workers."""

    def __init__(self, store: Store | None, *, require_keys: bool, rates: Buckets) -> None:
        self.store, self.require_keys, self.rates = store, require_keys, rates
        self._known: dict[str, tuple[float, Key]] = {}  # by the key itself: until when, and what is known of it

    async def admit(self, request: Request, scope: str) -> None:
        """Note the caller's key in ``request.state``, or raise the Problem that keeps them out."""
        request.state.key = None
        given = request.headers.get("authorization")
        if not self.require_keys:
            _refuse_other_sites(request)
            _require_own_host(request)
            if given is None or self.store is None:
                return
        key = await self._find(given)
        if scope not in key.scopes:
            raise Problem("forbidden", f"this key's scopes do not include {scope!r}", "use a key that has it")
        self.charge(key, 1)
        request.state.key = key

    async def _find(self, given: str | None) -> Key:
        kind, _, text = (given or "").partition(" ")
        text = text.strip()
        if kind.lower() != "bearer" or not text:
            raise _no_key("no API key was given", "send it as 'Authorization: Bearer KEY'")
        if len(text) > _LONGEST_KEY or self.store is None:
            raise _no_key("this API key is not valid", "use one that is")
        now = time.monotonic()
        until, key = self._known.get(text, (0.0, None))
        if key is None or until < now:
            self._known.pop(text, None)
            key = await asyncio.to_thread(self.store.find_key, text)
            if key is None:
                raise _no_key("this API key is not valid", "use one that is; it may have been revoked")
            if len(self._known) >= _MOST_KEYS:
                self._known.clear()
            self._known[text] = now + _REMEMBERED, key
        return key

    def charge(self, key: Key | None, requests: float) -> None:
        """Count so many requests against a key's rate; a Problem where it has made too many."""
        if key is None or key.per_minute is None or requests <= 0:
            return
        wait = self.rates.take(key.number, key.per_minute, time.monotonic(), requests)
        if wait:
            detail = f"this key may make {key.per_minute:,} requests a minute"
            headers = {"Retry-After": str(math.ceil(wait))}
            raise Problem("too-many-requests", detail, "wait as long as Retry-After says", headers)


def charge(request: Request, size: int, of: int) -> None:
    """Count a large request as several: as one for every ``of`` things that it asks for, and part of as many."""
    request.app.state.service.guard.charge(request.state.key, math.ceil(size / of) - 1)


def require_user(request: Request, user: str) -> None:
    """Refuse a key that may speak for another user only."""
    key: Key | None = request.state.key
    if key is not None and key.user is not None and key.user != user:
        raise Problem("forbidden", "this key may not speak for that user", "use the user's own key, or one for all")


def _no_key(detail: str, remedy: str) -> Problem:
    return Problem("no-key", detail, remedy, {"WWW-Authenticate": "Bearer"})


def _refuse_other_sites(request: Request) -> None:
    """A page of another site may make its visitors' browsers send requests; they say where they come from."""
    origin = request.headers.get("origin")
    if origin is None or request.method == "GET" or origin.partition("://")[2] == request.headers.get("host", ""):
        return
    raise Problem("forbidden", "requests from pages of other sites are refused", "ask from your own server")


def _require_own_host(request: Request) -> None:
    host = request.headers.get("host", "").rpartition("@")[2]
    name = host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
    if not is_loopback(name.lower()):
        raise Problem(
            "wrong-host", "without keys, this service answers to this machine's own names alone", "ask 127.0.0.1"
        )
