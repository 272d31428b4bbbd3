"""The journal of what changes what is remembered of all people: clicks that come to count or no longer do, lists shown.

Every process reads on from where it was, so all of them count the same, in the same order, whoever stored the events.
For that a row may not appear behind one that was read already. SQLite's transactions come one after the other anyway;
PostgreSQL's take a lock before they write here, and keep it until they end. Where somebody was forgotten the user's
rows are gone, and a row without a user says so: whoever meets it counts from the beginning.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, and_, bindparam, delete, func, insert, select, text

from capse.service.store.folding import EventKey
from capse.service.store.schema import changes, events

AT_ONCE = 10_000  # rows that are read at a time
_LOCK = 0x6361707365  # of PostgreSQL's advisory locks, for those who write here


@dataclass(frozen=True, slots=True)
class Change:
    """A row of the journal."""

    number: int
    step: (
        int  # 1: a click counts, or a list was shown; −1: the click does not count any more; 0: somebody was forgotten
    )
    documents: tuple[str, ...] = ()  # that were shown, or the one that was clicked
    kind: str = ""  # impression, click, or what else was done with the document
    query: str = ""
    time: int = 0  # microseconds since 1970


def write_changes(connection: Connection, steps: Sequence[tuple[EventKey, int]], numbers: dict[str, int]) -> None:
    """Note what became of events, given the numbers of their users, at the end of a transaction."""
    if steps:
        _lock(connection)
        rows = [{"user": numbers[user], "event": id, "step": step} for (user, id), step in steps]
        connection.execute(insert(changes), rows)


def forget_changes(connection: Connection, user: int) -> None:
    """Remove a user's rows, and have everybody count from the beginning."""
    _lock(connection)
    if connection.execute(delete(changes).where(changes.c.user == user)).rowcount:
        connection.execute(insert(changes), {"user": None, "event": None, "step": 0})


def read_changes(engine: Engine, after: int) -> list[Change]:
    """The next rows after one, `AT_ONCE` at most."""
    with engine.connect() as connection:
        return [
            Change(
                row.number,
                row.step,
                tuple(json.loads(row.documents or "[]")) if row.document is None else (row.document,),
                row.kind or "",
                row.query or "",
                row.time or 0,
            )
            for row in connection.execute(_AFTER, {"after": after})
        ]


def last_change(engine: Engine) -> int:
    """The number of the latest row, 0 where there is none."""
    with engine.connect() as connection:
        return int(connection.execute(select(func.max(changes.c.number))).scalar() or 0)


_AFTER = (
    select(
        changes.c.number,
        changes.c.step,
        events.c.kind,
        events.c.document,
        events.c.documents,
        events.c.query,
        events.c.time,
    )
    .select_from(changes)
    .join(events, and_(events.c.user == changes.c.user, events.c.id == changes.c.event), isouter=True)
    .where(changes.c.number > bindparam("after"))
    .order_by(changes.c.number)
    .limit(AT_ONCE)
)


def _lock(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
