"""What is known of a user, and how it is forgotten."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass

from sqlalchemy import Engine, bindparam, case, delete, func, insert, select

from capse.search.users.user_state import UserState
from capse.service.store.batches import EVENTS, event_of
from capse.service.store.batches import read_state as state_of
from capse.service.store.changes import forget_changes
from capse.service.store.engine import writing
from capse.service.store.event import Event
from capse.service.store.lists import forget_lists
from capse.service.store.schema import events, forgotten, keys, users
from capse.service.store.scrubbing import mark_for_scrubbing
from capse.service.store.writing import lock_users


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
    state: UserState | None


@dataclass(frozen=True)
class Deletion:
    """What was removed."""

    events: int
    keys: int  # those that could speak for this user only
    known: bool  # whether there was anything


_STATE = select(users.c.number, users.c.state, users.c.folded).where(users.c.name == bindparam("wanted"))


def read_state(engine: Engine, user: str) -> UserState | None:
    """A user's state; None for one of whom nothing ever counted."""
    with engine.connect() as connection:
        row = connection.execute(_STATE, {"wanted": user}).one_or_none()
        return None if row is None else state_of(connection, row.number, row.state, row.folded)


def latest_users(engine: Engine, most: int) -> list[str]:
    """The users who came last, of whom something counts."""
    statement = select(users.c.name).where(users.c.folded > 0).order_by(users.c.number.desc()).limit(most)
    with engine.connect() as connection:
        return list(connection.execute(statement).scalars())


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
        )
        .join_from(users, events)
        .where(users.c.name == user)
        .group_by(users.c.number)
    )
    with engine.connect() as connection:
        row = connection.execute(statement).one_or_none()
    if row is None:
        return None
    return UserDescription(user, **row._mapping, state=read_state(engine, user))


def digest(user: str) -> str:
    """What is kept of somebody who was forgotten: enough to know them by their id, and nothing to tell it from."""
    return hashlib.blake2b(user.encode(), digest_size=32, person=b"capse forgotten").hexdigest()


def is_forgotten(engine: Engine, user: str) -> bool:
    with engine.connect() as connection:
        return connection.execute(_FORGOTTEN, {"wanted": digest(user)}).scalar() is not None


def read_forgotten(engine: Engine) -> set[str]:
    """The digests of everybody who was forgotten."""
    with engine.connect() as connection:
        return set(connection.execute(select(forgotten.c.digest)).scalars())


_FORGOTTEN = select(forgotten.c.digest).where(forgotten.c.digest == bindparam("wanted"))


def erase(engine: Engine, user: str) -> Deletion:
    """Remove a user's events, lists, state and own keys from the tables, and note that the user is forgotten."""
    with writing(engine) as connection:
        lock_users(connection, [user])
        number = connection.execute(select(users.c.number).where(users.c.name == user)).scalar()
        own = connection.execute(delete(keys).where(keys.c.user == user)).rowcount
        gone = 0
        if number is not None:
            forget_changes(connection, number)
            forget_lists(connection, number)
            gone = connection.execute(delete(events).where(events.c.user == number)).rowcount
            connection.execute(delete(users).where(users.c.number == number))
        known = number is not None or own > 0
        if connection.execute(_FORGOTTEN, {"wanted": digest(user)}).scalar() is None:
            connection.execute(insert(forgotten), {"digest": digest(user), "at": time.time_ns() // 1_000})
        if known:
            mark_for_scrubbing(connection)
    return Deletion(gone, own, known)
