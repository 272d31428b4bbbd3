"""Request bodies of bounded size, time and depth: refused while they arrive, before anything parses them."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import Request
from pydantic_core import from_json
from starlette.requests import ClientDisconnect

from capse.service.limits import BODY_SECONDS, MAX_BODY
from capse.service.problems import Problem

_CLOSE = {"Connection": "close"}  # what follows on this connection is the rest of a body that nobody reads


class BoundedRequest(Request):
    """A request whose body is read up to a size and within a time, and whose JSON is not nested beyond reason."""

    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            announced = self.headers.get("content-length", "0")
            if not announced.isdecimal() or int(announced) > MAX_BODY:
                raise _too_large()
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    self._body = await self._read()
            except TimeoutError:
                detail = f"the body did not arrive within {BODY_SECONDS:g} seconds"
                raise Problem("too-slow", detail, "send it faster, or in smaller parts", _CLOSE) from None
            except ClientDisconnect:
                raise Problem("malformed-json", "the body ended too early", "send all of it") from None
        return self._body

    async def _read(self) -> bytes:
        parts, size = [], 0
        async for part in self.stream():
            size += len(part)
            if size > MAX_BODY:
                raise _too_large()
            parts.append(part)
        return b"".join(parts)

    async def json(self) -> Any:
        if hasattr(self, "_json"):
            return self._json
        body = await self.body()
        try:
            # Refuses what is nested more than 200 deep, halves of surrogate pairs, NaN and infinity.
            self._json = from_json(body, allow_inf_nan=False, cache_strings="none")
            return self._json
        except ValueError as error:
            raise Problem("malformed-json", f"the body is not JSON: {error}"[:300], "send one JSON object") from None


def require_json(request: Request) -> None:
    """Refuse bodies that are not said to be JSON: a page of another site could send them without asking first."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        detail = f"the body's type is {kind[:50]!r}" if kind else "the body's type is not given"
        raise Problem("not-json", detail, "set Content-Type: application/json")


def _too_large() -> Problem:
    return Problem("too-large", f"the body is larger than {MAX_BODY:,} bytes", "send it in smaller parts", _CLOSE)
