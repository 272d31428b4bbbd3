"""From a stream into the store: at least once in, exactly once stored, and nothing lost.

What is no event, or has the id of another, is written to a file with its reason before it is confirmed, once. Where
the stream or the database is away it is waited for; nothing is confirmed meanwhile.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from capse.errors import CapseError, DataError, EventConflictError, StoreError, StreamError
from capse.runs.atomic import storage_errors
from capse.service.routes.events import SentEvent
from capse.service.store import Event, Outcome, Store
from capse.service.streams import EventStream, Message

AT_ONCE = 500  # messages in one transaction
FIRST_WAIT, LONGEST_WAIT = 0.2, 10.0  # seconds until a server that is away is asked again

T = TypeVar("T")


@dataclass
class Tally:
    """What became of messages."""

    stored: int = 0
    repeated: int = 0  # they were stored before
    quarantined: int = 0
    lost: int = 0  # deleted by the server before they were read

    def __str__(self) -> str:
        said = f"{self.stored:,} stored, {self.repeated:,} repeated, {self.quarantined:,} quarantined"
        return said + (f", {self.lost:,} deleted by the server before they were read" if self.lost else "")


class Consumer:
    """Reads, stores, confirms. ``stopped`` is asked between two tries and two batches."""

    def __init__(
        self,
        stream: EventStream,
        store: Store,
        quarantine: Path,
        *,
        stopped: Callable[[], bool] = lambda: False,
        say: Callable[[str], None] = lambda text: None,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self.stream, self.store, self.quarantine = stream, store, quarantine
        self.stopped, self.say, self.wait = stopped, say, wait
        self.tally = Tally()
        self._set_aside = _written(quarantine)

    def step(self, seconds: float = 1.0) -> int:
        """Take the next messages; returns how many there were."""
        messages = self._patiently(lambda: self.stream.read(AT_ONCE, seconds)) or []
        self.tally.lost = self.stream.lost
        if messages and self._patiently(lambda: self._take(messages)) is not None:
            self._patiently(lambda: self.stream.confirm(messages))
        return len(messages)

    def _take(self, messages: Sequence[Message]) -> int:
        """Have messages on disk, as events or among those that were set aside."""
        events: list[tuple[Message, Event]] = []
        for message in messages:
            try:
                events.append((message, read_event(message.body)))
            except DataError as error:
                self._aside(message, str(error))
        try:
            outcomes = self.store.add([event for _, event in events])
        except EventConflictError:
            outcomes = [outcome for one in events for outcome in self._one(*one)]
        self.tally.stored += outcomes.count("accepted")
        self.tally.repeated += outcomes.count("repeated")
        return len(messages)

    def _one(self, message: Message, event: Event) -> list[Outcome]:
        try:
            return self.store.add([event])
        except EventConflictError as error:
            self._aside(message, str(error))
            return []

    def _aside(self, message: Message, reason: str) -> None:
        if message.id in self._set_aside:
            return
        line = {"message": message.id, "reason": reason, "body": message.body.decode("utf-8", "replace")}
        with storage_errors(self.quarantine), self.quarantine.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._set_aside.add(message.id)
        self.tally.quarantined += 1

    def _patiently(self, call: Callable[[], T]) -> T | None:
        """What a call gives, once it can; None where it was stopped meanwhile."""
        pause = FIRST_WAIT
        while True:
            try:
                return call()
            except CapseError as error:
                if not _passes(error):
                    raise
                if pause == FIRST_WAIT:
                    self.say(f"{error}; waiting")
            if self.stopped():
                return None
            self.wait(pause)
            pause = min(2 * pause, LONGEST_WAIT)


def _passes(error: CapseError) -> bool:
    if isinstance(error, StoreError):
        return error.temporary
    return isinstance(error, StreamError) and error.passes


def read_event(body: bytes) -> Event:
    """The event of a message, with the checks of `POST /v1/events`; a DataError says what is wrong.

    >>> read_event(b'{"id": "e2", "kind": "click", "user": "ada", "time": 1700000000, "document": "d7"}').document
    'd7'
    """
    try:
        return Event.model_construct(**vars(SentEvent.model_validate_json(body)))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise DataError(f"{where}: {first['msg']}" if where else first["msg"]) from error


def _written(path: Path) -> set[str]:
    """The messages that were set aside before; a line that was cut off is none."""
    found = set()
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            found.add(json.loads(line)["message"])
        except (ValueError, KeyError, TypeError):
            continue
    return found
