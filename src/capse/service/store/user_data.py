"""What is known of a user, and how it is forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, bindparam, case, delete, func, select

from capse.service.store.engine import writing
from capse.service.store.event import Event
from capse.service.store.folding import State, decode
from capse.service.store.schema import events, keys, users
from capse.service.store.scrubbing import mark_for_scrubbing
from capse.service.store.writing import EVENTS, event_of, lock_users


@dataclass(frozen=True)
class UserDescription:
    """What is stored of a user."""

    user: str
    impressions: int
    clicks: int
    satisfied: int  # clicks that count
    sessions: int
    first: int  # microseconds since 1970, of the first event
    last: int
    state: State | None


@dataclass(frozen=True)
class Deletion:
    """What was removed."""

    events: int
    keys: int  # those that could speak for this user only
    known: bool  # whether there was anything


_STATE = select(users.c.state).where(users.c.name == bindparam("wanted"))


def read_state(engine: Engine, user: str) -> State | None:
    """A user's state; None for one who has none."""
    with engine.connect() as connection:
        return decode(connection.execute(_STATE, {"wanted": user}).scalar())


def read_events(engine: Engine, user: str) -> list[Event]:
    """A user's events in the order of arrival."""
    with engine.connect() as connection:
        return [
            event_of(row) for row in connection.execute(EVENTS.where(users.c.name == user).order_by(events.c.number))
        ]


def describe(engine: Engine, user: str) -> UserDescription | None:
    """What is stored of a user; None for one who is not known."""
    click, counted = events.c.kind == "click", events.c.folded.is_not(None)
    statement = (
        select(
            func.count(case((events.c.kind == "impression", 1))).label("impressions"),
            func.count(case((click, 1))).label("clicks"),
            func.count(case((click & counted, 1))).label("satisfied"),
            func.count(events.c.session.distinct()).label("sessions"),
            func.min(events.c.time).label("first"),
            func.max(events.c.time).label("last"),
            users.c.state,
        )
        .join_from(users, events)
        .where(users.c.name == user)
        .group_by(users.c.number, users.c.state)
    )
    with engine.connect() as connection:
        row = connection.execute(statement).one_or_none()
    if row is None:
        return None
    counts: dict[str, Any] = dict(row._mapping)
    return UserDescription(user, **counts | {"state": decode(counts["state"])})


def erase(engine: Engine, user: str) -> Deletion:
    """Remove a user's events, state and own keys from the tables."""
    with writing(engine) as connection:
        lock_users(connection, [user])
        number = connection.execute(select(users.c.number).where(users.c.name == user)).scalar()
        own = connection.execute(delete(keys).where(keys.c.user == user)).rowcount
        gone = 0
        if number is not None:
            gone = connection.execute(delete(events).where(events.c.user == number)).rowcount
            connection.execute(delete(users).where(users.c.number == number))
        known = number is not None or own > 0
        if known:
            mark_for_scrubbing(connection)
    return Deletion(gone, own, known)
