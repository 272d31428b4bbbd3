"""What a transaction reads of the database before it folds events, and what it writes afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select, text, update

from capse.search.users.profiles import REMEMBERED
from capse.search.users.user_state import UserState
from capse.service.store.changes import write_changes
from capse.service.store.event import ACTIONS, Event
from capse.service.store.folding import Batch, EventRow, LastClicks, SessionKey, UserRow, folded, text_of
from capse.service.store.schema import events, users

_PART = 10_000  # names in one statement


def read_state(connection: Connection, number: int, content: bytes | None, count: int) -> UserState | None:
    """A user's state: as it is stored, or folded again from the clicks that count where it is not."""
    if content is not None:
        return UserState.from_bytes(content)
    return refold(connection, number) if count else None


def refold(connection: Connection, number: int) -> UserState:
    """A user's state from the stored events that count: the latest, which are all that a state remembers."""
    counted = EVENTS.where(events.c.user == number, events.c.folded.is_not(None)).order_by(events.c.folded.desc())
    done = EVENTS.where(events.c.user == number, events.c.kind.in_(ACTIONS)).order_by(events.c.number.desc())
    clicks, actions = (connection.execute(wanted.limit(REMEMBERED)).all() for wanted in (counted, done))
    return folded(map(event_of, reversed(clicks)), map(event_of, reversed(actions)))


def event_of(row: Row[Any]) -> Event:
    """An event as it is stored: it was checked when it was sent."""
    values = {name: getattr(row, name) for name in Event.model_fields}
    own = {"user": row.name, "documents": tuple(json.loads(row.documents)), "title": row.title or ""}
    return Event.model_construct(**values | own)


EVENTS = select(events, users.c.name).join_from(events, users)

# Pairs of a user's number and a text, as a table: one parameter, however many they are.
_WANTED = {
    "sqlite": "WITH wanted(number, label) AS (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') "
    "FROM json_each(:pairs)) ",
    "postgresql": "WITH wanted(number, label) AS (SELECT * FROM "
    "jsonb_to_recordset(CAST(:pairs AS jsonb)) AS pairs(number bigint, label text)) ",
}
_BY_ID = """
SELECT events.*, users.name FROM wanted
JOIN events ON events."user" = wanted.number AND events.id = wanted.label
JOIN users ON users.number = events."user"
"""
_DWELLS = """
SELECT users.name, events.click, max(events.dwell) AS dwell FROM wanted
JOIN events ON events."user" = wanted.number AND events.click = wanted.label
JOIN users ON users.number = events."user"
GROUP BY users.name, events.click
"""
_LAST = """
SELECT events.*, users.name FROM (
    SELECT wanted.*, (
        SELECT max(time) FROM events
        WHERE events."user" = wanted.number AND events.session = wanted.label AND events.kind = 'click'
    ) AS time FROM wanted
) AS latest
JOIN events ON events."user" = latest.number AND events.session = latest.label
    AND events.time = latest.time AND events.kind = 'click'
JOIN users ON users.number = events."user"
"""
_STATEMENTS = {
    (dialect, name): text(wanted + statement)
    for dialect, wanted in _WANTED.items()
    for name, statement in (("by id", _BY_ID), ("dwells", _DWELLS), ("last", _LAST))
}


def read_batch(connection: Connection, batch: Batch, wanted: list[Event]) -> None:
    """What is stored of these events, of the clicks whose dwell they report, of their sessions and users."""
    numbers: dict[str, int] = {}
    judged = {event.user for event in wanted if event.kind != "impression"}  # whose states may change
    for part in _parts({event.user for event in wanted}):
        for row in connection.execute(select(users).where(users.c.name.in_(part))).all():
            state = read_state(connection, row.number, row.state, row.folded) if row.name in judged else None
            batch.users[row.name] = UserRow(state, row.folded, row.number)
            numbers[row.name] = row.number
    ids = {(event.user, id) for event in wanted for id in (event.id, event.click) if id is not None}
    for row in _rows(connection, "by id", ids, numbers):
        batch.events[row.name, row.id] = EventRow(event_of(row), row.folded, stored=True)
    clicks = [event for event in wanted if event.kind == "click"]
    clicks += [row.event for row in batch.events.values() if row.event.kind == "click"]
    last: dict[SessionKey, list[Event]] = {}
    for row in _rows(connection, "last", {(click.user, click.session) for click in clicks}, numbers):
        found = batch.events.setdefault((row.name, row.id), EventRow(event_of(row), row.folded, stored=True))
        last.setdefault((row.name, row.session), []).append(found.event)
    batch.last.update({key: LastClicks(same[0].time, frozenset(one.id for one in same)) for key, same in last.items()})
    clicks += [click for same in last.values() for click in same]
    reported = {(click.user, click.id) for click in clicks} | {(e.user, e.click) for e in wanted if e.click is not None}
    for row in _rows(connection, "dwells", reported, numbers):
        batch.dwells[row.name, row.click] = row.dwell


def _rows(
    connection: Connection, statement: str, wanted: set[tuple[str, str]], numbers: dict[str, int]
) -> Sequence[Row[Any]]:
    """The rows of pairs of a user and something of the user's; those of users who are not stored have none."""
    pairs = [(numbers[user], other) for user, other in sorted(wanted) if user in numbers]
    if not pairs:
        return ()
    dialect = connection.dialect.name
    given = pairs if dialect == "sqlite" else [{"number": number, "label": label} for number, label in pairs]
    return connection.execute(_STATEMENTS[dialect, statement], {"pairs": json.dumps(given)}).all()


def save_batch(connection: Connection, batch: Batch) -> None:
    """Write what is new or has changed, then fold again where a click was taken back."""
    changed = {name: batch.users[name] for name in batch.changed_users}
    new = [name for name, user in changed.items() if user.number is None]
    numbers = {name: user.number for name, user in batch.users.items() if user.number is not None}
    if new:
        connection.execute(insert(users), [{"name": name, "folded": 0} for name in new])
        for part in _parts(new):
            found = connection.execute(select(users.c.name, users.c.number).where(users.c.name.in_(part)))
            numbers.update({row.name: row.number for row in found})
    rows = [batch.events[key] for key in batch.changed_events]
    fresh = [_values(row, numbers) for row in rows if not row.stored]
    judged = [
        {"of_user": numbers[row.event.user], "of_id": row.event.id, "new_folded": row.folded} | _text(row.event)
        for row in rows
        if row.stored
    ]
    if fresh:
        connection.execute(insert(events), fresh)
    if judged:
        connection.execute(_JUDGE, judged)
    states = [
        {
            "of_number": numbers[name],
            "new_state": _bytes(refold(connection, numbers[name]) if user.stale else user.state),
            "new_folded": user.folded,
        }
        for name, user in changed.items()
        if user.folded or user.state is not None
    ]
    if states:
        connection.execute(_KEEP, states)
    write_changes(connection, batch.steps, numbers)


_JUDGE = (
    update(events)
    .where(events.c.user == bindparam("of_user"), events.c.id == bindparam("of_id"))
    .values(folded=bindparam("new_folded"), title=bindparam("title"), text=bindparam("text"))
)
_KEEP = (
    update(users)
    .where(users.c.number == bindparam("of_number"))
    .values(state=bindparam("new_state"), folded=bindparam("new_folded"))
)


def _bytes(state: UserState | None) -> bytes | None:
    return None if state is None else state.to_bytes()


def _text(event: Event) -> dict[str, str | None]:
    """Of a document by its text, as much as is remembered."""
    text = text_of(event)
    return {"title": None, "text": None} if text is None else {"title": text.title or None, "text": text.text}


def _values(row: EventRow, numbers: dict[str, int]) -> dict[str, Any]:
    values = {**vars(row.event), "folded": row.folded, "user": numbers[row.event.user], **_text(row.event)}
    return {**values, "documents": json.dumps(row.event.documents, ensure_ascii=False)}


def _parts(names: Iterable[str]) -> Iterator[list[str]]:
    """Sorted, in parts that fit into one statement."""
    ordered = sorted(names)
    for start in range(0, len(ordered), _PART):
        yield ordered[start : start + _PART]
