"""Streams of events, from which a process of its own fills the store: `capse search consume`.

A stream gives every message at least once: one that was read and not confirmed, because whoever read it was stopped,
is given again. The store takes every event once, by its id. So an event is confirmed when it is on disk, and is stored
exactly once. Another package adds a stream, Kafka's for example, by naming a function in its own ``pyproject.toml``::

    [project.entry-points."capse.event_streams"]
    kafka = "capse_kafka:open_stream"

It is called as ``open_stream(url, name, group)`` for addresses that begin with ``kafka://``, and returns an
`EventStream`; a StreamError says what is wrong, and whether it passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from capse.errors import SettingsError
from capse.registry import Registry


@dataclass(frozen=True, slots=True)
class Message:
    """What came: an event, as a body of ``POST /v1/events`` has it."""

    id: str  # of the stream
    body: bytes


class EventStream(Protocol):
    """A place in a stream, that a group of readers shares. A StreamError where the server is away."""

    def read(self, most: int, seconds: float) -> list[Message]:
        """The next messages, waiting so long for the first; those first that were read before and not confirmed."""
        ...

    def confirm(self, messages: Sequence[Message]) -> None:
        """Have messages not given again."""
        ...

    @property
    def lost(self) -> int:
        """Messages that the server deleted before anybody confirmed them."""
        ...

    def close(self) -> None: ...


class OpensStream(Protocol):
    """Joins a group of readers of a stream by its name."""

    def __call__(self, url: str, name: str, group: str) -> EventStream: ...


_REDIS = f"{__name__}.redis_streams:open_stream"
STREAMS: Registry[OpensStream] = Registry(
    "stream", "capse.event_streams", {"redis": _REDIS, "rediss": _REDIS, "unix": _REDIS}
)


def open_stream(url: str, name: str, group: str) -> EventStream:
    """By the address's beginning."""
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise SettingsError(f"{url} is no address of a stream", "write one such as redis://localhost:6379/0")
    return STREAMS[scheme](url, name, group)
