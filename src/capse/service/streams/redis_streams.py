"""Redis Streams (https://redis.io/docs/latest/develop/data-types/streams/): a message has a field ``event``, as JSON.

    redis-cli XADD events '*' event '{"id": "e2", "kind": "click", "user": "ada", "time": 1700000000, "document": "d7"}'

Every reader has a name of its own. What a reader that is gone has not confirmed is taken over after a while.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from capse.errors import MissingExtraError, StreamError
from capse.service.streams import Message

TAKE_OVER = 30_000  # milliseconds without a word, after which a reader's messages are given to another
FIELD = b"event"


def open_stream(url: str, name: str, group: str) -> RedisStream:
    """Join a group of readers; it is made, from the beginning of the stream, where there is none."""
    try:
        import redis
    except ModuleNotFoundError as error:
        raise MissingExtraError("a stream of Redis", "streams") from error
    try:
        client = redis.Redis.from_url(url, socket_connect_timeout=5, socket_timeout=15)
    except ValueError as error:
        raise StreamError(
            f"{url} is no address of Redis ({error})", "write redis://HOST:PORT/0", passes=False
        ) from error
    return RedisStream(client, name, group)


class RedisStream:
    """One reader of a group."""

    def __init__(self, client: Any, name: str, group: str) -> None:
        self._client, self._name, self._group = client, name, group
        self._reader = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.lost = 0
        self._joined = False

    def read(self, most: int, seconds: float) -> list[Message]:
        with _errors():
            self._join()
            return self._given_before(most) or self._fresh(most, seconds)

    def confirm(self, messages: Sequence[Message]) -> None:
        with _errors():
            if messages:
                self._client.xack(self._name, self._group, *(message.id for message in messages))

    def close(self) -> None:
        self._client.close()

    def _join(self) -> None:
        from redis.exceptions import ResponseError

        if self._joined:
            return
        try:
            self._client.xgroup_create(self._name, self._group, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
        self._joined = True

    def _given_before(self, most: int) -> list[Message]:
        """This reader's own that were not confirmed, then those of readers who are gone."""
        own = self._client.xreadgroup(self._group, self._reader, {self._name: "0"}, count=most)
        if found := _messages(own[0][1] if own else []):
            return found
        taken = self._client.xautoclaim(self._name, self._group, self._reader, TAKE_OVER, count=most)
        self.lost += len(taken[2]) if len(taken) > 2 else 0
        return _messages(taken[1])

    def _fresh(self, most: int, seconds: float) -> list[Message]:
        wait = max(1, round(1_000 * seconds))
        new = self._client.xreadgroup(self._group, self._reader, {self._name: ">"}, count=most, block=wait)
        return _messages(new[0][1] if new else [])


def _messages(entries: Sequence[Any]) -> list[Message]:
    """Those that are still there: of one that was deleted nothing but its id is given."""
    return [Message(id.decode(), fields.get(FIELD, b"")) for id, fields in entries if fields]


@contextmanager
def _errors() -> Iterator[None]:
    from redis.exceptions import AuthenticationError, BusyLoadingError, ConnectionError, RedisError, TimeoutError

    try:
        yield
    except AuthenticationError as error:
        raise StreamError(f"Redis refuses us ({error})", "check the name and the password", passes=False) from error
    except (ConnectionError, TimeoutError, BusyLoadingError) as error:
        raise StreamError(f"Redis cannot be reached ({error})", "start it, or check the address") from error
    except RedisError as error:
        raise StreamError(f"Redis cannot do that ({error})", "check the name of the stream", passes=False) from error
