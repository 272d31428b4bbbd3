"""Connections that slow clients cannot hold open: headers must arrive whole and in time, and answers must be read.

uvicorn bounds none of it. Bodies are bounded by `capse.service.bodies`.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from capse.service.limits import HEADER_SECONDS, MAX_HEADERS, READ_SECONDS
from capse.service.problems import MEDIA_TYPE, Problem


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a clock and a count that run until the headers are complete."""

    _timer: asyncio.TimerHandle | None = None
    _received = 0  # bytes of headers that are not complete
    _parsed = 0  # bytes of those that are: headers that come in one piece with what follows are never incomplete
    _unread: asyncio.TimerHandle | None = None  # while the client does not read

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        waiting = self._timer is not None
        if waiting:
            self._received += len(data)
        super().data_received(data)
        if waiting and self._timer is not None and self._received > MAX_HEADERS:
            self._refuse(_too_large())

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_waiting()
        super().resume_writing()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._parsed = 0
        if self._timer is None:
            self._start_timer()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + len(b": \r\n"))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_timer()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        if self._parsed > MAX_HEADERS:
            self._refuse(_too_large())
        else:
            self._refuse(Problem("malformed-request", "the request is not HTTP/1.1", "check the client"))

    def _count(self, size: int) -> None:
        """An error here ends the parsing, and `send_400_response` is called."""
        self._parsed += size
        if self._parsed > MAX_HEADERS:
            raise ValueError("headers too large")

    def _start_timer(self) -> None:
        self._received = 0
        self._timer = self.loop.call_later(HEADER_SECONDS, self._on_timeout)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_waiting(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _on_timeout(self) -> None:
        self._timer = None
        detail = f"the headers did not arrive within {HEADER_SECONDS:g} seconds"
        self._refuse(Problem("too-slow", detail, "send them at once"))

    def _refuse(self, problem: Problem) -> None:
        """Answer on the bare connection, and close it."""
        self._stop_timer()
        if self.transport.is_closing():
            return
        body = json.dumps(problem.body()).encode()
        head = f"HTTP/1.1 {problem.status} {problem.title}\r\ncontent-type: {MEDIA_TYPE}\r\n"
        head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()


def _too_large() -> Problem:
    detail = f"the headers are larger than {MAX_HEADERS:,} bytes"
    return Problem("headers-too-large", detail, "send fewer or shorter ones")
