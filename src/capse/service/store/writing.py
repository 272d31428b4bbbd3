"""Adding events by group commit: one transaction for all requests that wait, so that they share one flush."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Engine, Row, bindparam, exc, func, insert, select, text, update

from capse.service.store.engine import writing
from capse.service.store.event import Event, Satisfaction
from capse.service.store.folding import Batch, EventRow, Fold, Outcome, State, UserRow, as_folded, decode, encode
from capse.service.store.schema import events, users

REFOLDED = 1_000  # events of a user that are folded again
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

    def __init__(self, engine: Engine, fold: Fold, rule: Satisfaction) -> None:
        self._engine, self._fold, self._rule = engine, fold, rule
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
        """Read, fold and save.

        Beware: the fold is the caller's, and is called inside the transaction. The service's asks the search model. It
        learns one click from one vector, but waits for the model's lock while a list is re-ranked. Meanwhile SQLite
        lets nobody else write, and PostgreSQL nobody who shares a user. It cannot be called outside: the state that it
        starts from must not change before the new one is saved. So a fold must be short, may not write to this store,
        and may not wait for anybody who does.
        """
        wanted = [event for request in group for event in request.events]
        lock_users(connection, {event.user for event in wanted})
        batch = Batch(self._fold, self._rule)
        _read(connection, batch, wanted)
        results = []
        for request in group:
            try:
                results.append(_Result(batch.apply(request.events)))
            except Exception as error:  # a conflict, or a fold that fails: of this request alone
                results.append(_Result(error=error))
        _save(connection, batch)
        return results


def _collided(error: exc.DBAPIError) -> bool:
    """Another process stored one of our ids meanwhile, for another user: read it, and find the conflict."""
    state = getattr(error.orig, "sqlstate", None) or ""
    return isinstance(error, exc.IntegrityError) or state.startswith("40")


def lock_users(connection: Connection, names: Iterable[str]) -> None:
    """Let no other process change these users until the transaction ends; SQLite lets one write at a time anyway.

    A row lock would not do for users who have no row yet. The order of the locks is the same for all: no deadlock.
    """
    if connection.dialect.name == "postgresql":
        digests = (hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
        locks = sorted({int.from_bytes(digest, "big", signed=True) for digest in digests})
        statement = text("SELECT count(pg_advisory_xact_lock(lock)) FROM unnest(CAST(:locks AS bigint[])) AS lock")
        connection.execute(statement, {"locks": locks})


def _refold(connection: Connection, fold: Fold, number: int) -> State | None:
    """A user's state from the stored events that count: the latest, where they are very many.

    Nobody else can write meanwhile, so this must end soon; in a profile that decays, older ones no longer weigh.
    """
    state: State | None = None
    counted = EVENTS.where(events.c.user == number, events.c.folded.is_not(None)).order_by(events.c.folded.desc())
    for row in reversed(connection.execute(counted.limit(REFOLDED)).all()):
        state = fold(state, as_folded(event_of(row)))
    return state


def event_of(row: Row[Any]) -> Event:
    """An event as it is stored: it was checked when it was sent."""
    values = {name: getattr(row, name) for name in Event.model_fields}
    return Event.model_construct(**values | {"user": row.name, "documents": tuple(json.loads(row.documents))})


EVENTS = select(events, users.c.name).join_from(events, users)
_DWELLS = (
    select(users.c.name, events.c.click, func.max(events.c.dwell).label("dwell"))
    .join_from(events, users)
    .where(events.c.click.in_(bindparam("clicks", expanding=True)))
    .group_by(users.c.name, events.c.click)
)


def _read(connection: Connection, batch: Batch, wanted: list[Event]) -> None:
    """What is stored of these events, of the clicks whose dwell they report, and of their users."""
    clicks = {event.click for event in wanted if event.click is not None}
    for part in _parts({event.id for event in wanted} | clicks):
        for row in connection.execute(EVENTS.where(events.c.id.in_(part))):
            batch.events[row.id] = EventRow(event_of(row), row.folded, stored=True)
    for part in _parts({event.id for event in wanted if event.kind == "click"} | clicks):
        for row in connection.execute(_DWELLS, {"clicks": part}):
            batch.dwells[row.name, row.click] = row.dwell
    for part in _parts({event.user for event in wanted}):
        for row in connection.execute(select(users).where(users.c.name.in_(part))):
            batch.users[row.name] = UserRow(decode(row.state), row.folded, row.number, text=row.state)


def _save(connection: Connection, batch: Batch) -> None:
    """Write what is new or has changed, then fold again where a click was taken back."""
    changed = {name: batch.users[name] for name in batch.changed_users}
    new = [name for name, user in changed.items() if user.number is None]
    numbers = {name: user.number for name, user in batch.users.items() if user.number is not None}
    if new:
        connection.execute(insert(users), [{"name": name, "folded": 0} for name in new])
        for part in _parts(new):
            found = connection.execute(select(users.c.name, users.c.number).where(users.c.name.in_(part)))
            numbers.update({row.name: row.number for row in found})
    rows = [batch.events[id] for id in batch.changed_events]
    fresh = [_values(row, numbers) for row in rows if not row.stored]
    judged = [{"of_id": row.event.id, "new_folded": row.folded} for row in rows if row.stored]
    if fresh:
        connection.execute(insert(events), fresh)
    if judged:
        connection.execute(_JUDGE, judged)
    states = [
        {
            "of_number": numbers[name],
            "new_state": encode(_refold(connection, batch.fold, numbers[name])) if user.stale else user.text,
            "new_folded": user.folded,
        }
        for name, user in changed.items()
    ]
    if states:
        connection.execute(_KEEP, states)


_JUDGE = update(events).where(events.c.id == bindparam("of_id")).values(folded=bindparam("new_folded"))
_KEEP = (
    update(users)
    .where(users.c.number == bindparam("of_number"))
    .values(state=bindparam("new_state"), folded=bindparam("new_folded"))
)


def _values(row: EventRow, numbers: dict[str, int]) -> dict[str, Any]:
    values = {**vars(row.event), "folded": row.folded, "user": numbers[row.event.user]}
    return {**values, "documents": json.dumps(row.event.documents, ensure_ascii=False)}


def _parts(names: Iterable[str]) -> Iterator[list[str]]:
    """Sorted, in parts that fit into one statement."""
    ordered = sorted(names)
    for start in range(0, len(ordered), 10_000):
        yield ordered[start : start + 10_000]
