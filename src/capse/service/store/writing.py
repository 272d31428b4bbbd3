"""Adding events by group commit: one transaction for all requests that wait, so that they share one flush."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, Engine, exc, text

from capse.errors import EventConflictError
from capse.search.satisfaction import Satisfaction
from capse.service.store.batches import read_batch, save_batch
from capse.service.store.engine import writing
from capse.service.store.event import Event
from capse.service.store.folding import Batch, Outcome

_ATTEMPTS = 5
_GROUP = 2_000  # events after which a transaction takes no further request


@dataclass(frozen=True)
class _Result:
    outcomes: list[Outcome] | None = None
    error: BaseException | None = None


@dataclass
class _Request:
    events: Sequence[Event]
    result: _Result | None = None  # set once it is on disk, or has failed
    woken: threading.Event = field(default_factory=threading.Event)  # it is done, or is to write


class Writer:
    """Whoever comes while nobody writes, writes for all who wait, and then wakes one of those who came meanwhile."""

    def __init__(self, engine: Engine, rule: Satisfaction) -> None:
        self._engine, self._rule = engine, rule
        self._lock = threading.Lock()  # of the two below
        self._waiting: list[_Request] = []  # the first of them is the one who writes next
        self._occupied = False  # somebody writes or has been woken to write

    def add(self, new: Sequence[Event]) -> list[Outcome]:
        """Store events; they are on disk when this returns."""
        request = _Request(new)
        with self._lock:
            self._waiting.append(request)
            writes, self._occupied = not self._occupied, True
        try:
            if not writes:
                request.woken.wait()
            if request.result is None:
                self.write_waiting()
        except BaseException:  # Ctrl-C while waiting: somebody else must write
            self._withdraw(request)
            raise
        assert request.result is not None
        if request.result.error is not None:
            raise request.result.error
        assert request.result.outcomes is not None
        return request.result.outcomes

    def write_waiting(self) -> None:
        """Write for all who wait, up to a limit, and appoint the next."""
        with self._lock:
            size, count = 0, 0
            while count < len(self._waiting) and size < _GROUP:
                size, count = size + len(self._waiting[count].events), count + 1
            group, self._waiting = self._waiting[:count], self._waiting[count:]
        try:
            results = self._write(group)
        except BaseException as error:  # whatever it is, nobody may wait for ever
            results = [_Result(error=error)] * len(group)
        with self._lock:
            self._appoint()
            for request, result in zip(group, results, strict=True):
                request.result = result
                request.woken.set()

    def _appoint(self) -> None:
        self._occupied = bool(self._waiting)
        if self._waiting:
            self._waiting[0].woken.set()

    def _withdraw(self, request: _Request) -> None:
        with self._lock:
            if request in self._waiting:
                appointed = request.woken.is_set()
                self._waiting.remove(request)
                if appointed:
                    self._appoint()

    def _write(self, group: list[_Request]) -> list[_Result]:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with writing(self._engine) as connection:
                    return self._apply(connection, group)
            except exc.DBAPIError as error:
                if attempt == _ATTEMPTS or not _collided(error):
                    raise
        raise AssertionError("unreachable")

    def _apply(self, connection: Connection, group: list[_Request]) -> list[_Result]:
        """Read, fold and save."""
        wanted = [event for request in group for event in request.events]
        lock_users(connection, {event.user for event in wanted})
        batch = Batch(self._rule)
        read_batch(connection, batch, wanted)
        results = []
        for request in group:
            try:
                results.append(_Result(batch.apply(request.events)))
            except EventConflictError as error:  # of this request alone
                results.append(_Result(error=error))
        save_batch(connection, batch)
        return results


def _collided(error: exc.DBAPIError) -> bool:
    """Another process was in the way of this transaction, which may be tried again."""
    return (getattr(error.orig, "sqlstate", None) or "").startswith("40")


def lock_users(connection: Connection, names: Iterable[str]) -> None:
    """Let no other process change these users until the transaction ends; SQLite lets one write at a time anyway.

    A row lock would not do for users who have no row yet. The order of the locks is the same for all: no deadlock.
    """
    if connection.dialect.name == "postgresql":
        digests = (hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
        locks = sorted({int.from_bytes(digest, "big", signed=True) for digest in digests})
        statement = text("SELECT count(pg_advisory_xact_lock(lock)) FROM unnest(CAST(:locks AS bigint[])) AS lock")
        connection.execute(statement, {"locks": locks})
