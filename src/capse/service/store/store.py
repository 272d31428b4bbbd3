"""The store: one object per process, used by all of its threads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from sqlalchemy import Connection, Engine

from capse.errors import EventError, StoreError
from capse.search.satisfaction import Satisfaction
from capse.search.users.user_state import UserState
from capse.service.fields import storable
from capse.service.limits import MAX_EVENTS
from capse.service.store import keys, user_data
from capse.service.store.changes import Change, last_change, read_changes
from capse.service.store.checking import check
from capse.service.store.engine import create_file, database_url, make_checking_engine, make_engine, shown, snapshot
from capse.service.store.event import Event
from capse.service.store.facts import Fact, add_facts, count_facts, read_facts
from capse.service.store.failures import store_errors
from capse.service.store.folding import Outcome
from capse.service.store.keys import Key
from capse.service.store.list_writing import write_lists
from capse.service.store.lists import KeptList, expire
from capse.service.store.migrate import migrate
from capse.service.store.scrubbing import scrub
from capse.service.store.user_data import Deletion, UserDescription
from capse.service.store.writing import Writer

CHECK_SECONDS = 0.2  # that looking through the pages of a database in use may take


class Store:
    """Events, what they made of each user, facts of a graph, and API keys, in SQLite or PostgreSQL.

    Every method raises a StoreError when the database fails, and works again once the database does.
    """

    def __init__(self, engine: Engine, checking: Engine, where: str, rule: Satisfaction) -> None:
        self._engine, self._checking, self.where = engine, checking, where
        self._damaged = False  # somebody met damage, and nobody has looked at the whole database since
        self._writer = Writer(engine, rule)

    @classmethod
    def open(cls, url: str, *, rule: Satisfaction | None = None, create: bool = True) -> Store:
        """Open a database by its URL, or SQLite by its file, and bring its tables up to date.

        ``rule`` says when a click is satisfied. With ``create`` an SQLite file is made where there is none.
        """
        parsed = database_url(url)
        where = shown(parsed)
        if create and parsed.drivername == "sqlite":
            create_file(Path(parsed.database or ""))
        engine = make_engine(parsed)
        store = cls(engine, make_checking_engine(parsed), where, rule or Satisfaction())
        try:
            with store._errors():
                migrate(engine, where)
                scrub(engine, where)  # what a process was deleting when it was killed
        except BaseException:
            engine.dispose()
            raise
        return store

    def close(self) -> None:
        """Close the connections that are not in use; the store may be used again."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, events: Sequence[Event]) -> list[Outcome]:
        """Store events, all or none, and fold them into their users' states; on disk when this returns.

        An event that is stored already is 'repeated' and changes nothing. An EventConflictError names an id that stands
        for another event. Calls of several threads share one transaction.
        """
        if len(events) > MAX_EVENTS:
            raise EventError(f"{len(events)} events at once", f"send at most {MAX_EVENTS}")
        if not events:
            return []
        with self._errors():
            return self._writer.add(events)

    def keep_lists(self, kept: Sequence[KeptList]) -> int:
        """Store lists to be learned from, all or none, but those of users who were ever forgotten; returns how many."""
        with self._errors():
            return write_lists(self._engine, kept) if kept else 0

    def expire_lists(self, now: int, list_days: float, text_days: float) -> tuple[int, int]:
        """Remove lists and texts that were kept for longer than so many days; returns how many that was."""
        with self._errors():
            return expire(self._engine, now, list_days, text_days)

    def add_facts(self, new: Sequence[Fact]) -> list[Outcome]:
        """Store facts of a graph, all or none, each once; on disk when this returns."""
        with self._errors():
            return add_facts(self._engine, new)

    def facts(self) -> list[Fact]:
        """All facts that were added, in the order in which they came."""
        with self._errors():
            return read_facts(self._engine)

    def fact_count(self) -> int:
        """How many these are; it only grows."""
        with self._errors():
            return count_facts(self._engine)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to read from, which sees the database as it is now, whoever writes meanwhile."""
        with self._errors(), snapshot(self._engine) as connection:
            yield connection

    def changes(self, after: int = 0) -> list[Change]:
        """What changed what is remembered of all people, after a row of that number: so many that it takes no time."""
        with self._errors():
            return read_changes(self._engine, after)

    def last_change(self) -> int:
        """The number of the latest of these; 0 where there is none."""
        with self._errors():
            return last_change(self._engine)

    def state(self, user: str) -> UserState | None:
        """What is remembered of a user; None for one of whom nothing ever counted."""
        with self._errors():
            return user_data.read_state(self._engine, user) if storable(user) else None

    def latest_users(self, most: int) -> list[str]:
        """The users who came last, of whom something counts."""
        with self._errors():
            return user_data.latest_users(self._engine, most)

    def events(self, user: str) -> list[Event]:
        """A user's events in the order of arrival."""
        with self._errors():
            return user_data.read_events(self._engine, user) if storable(user) else []

    def describe_user(self, user: str) -> UserDescription | None:
        """What is stored of a user; None for one who is not known."""
        with self._errors():
            return user_data.describe(self._engine, user) if storable(user) else None

    def delete_user(self, user: str) -> Deletion:
        """Remove every trace of a user: events, lists, state, and the keys that could speak for this user only.

        A digest of the id stays, by which `is_forgotten` knows the user. SQLite's file is rewritten, which takes time
        when it is large.
        """
        with self._errors():
            deletion = user_data.erase(self._engine, user) if storable(user) else Deletion(0, 0, known=False)
            scrub(self._engine, self.where)
            return deletion

    def is_forgotten(self, user: str) -> bool:
        """Whether somebody was ever deleted: no run may tell them from a stranger."""
        with self._errors():
            return storable(user) and user_data.is_forgotten(self._engine, user)

    def forgotten(self) -> Callable[[str], bool]:
        """The same for everybody at once, as of now."""
        with self._errors():
            digests = user_data.read_forgotten(self._engine)
        return lambda user: storable(user) and user_data.digest(user) in digests

    def add_key(
        self, name: str, scopes: Collection[str], user: str | None = None, per_minute: int | None = None
    ) -> str:
        """Make an API key; it is returned here and never again."""
        with self._errors():
            return keys.add_key(self._engine, name, scopes, user, per_minute)

    def find_key(self, plaintext: str) -> Key | None:
        """The valid key that this is, if it is one."""
        with self._errors():
            return keys.find_key(self._engine, plaintext)

    def revoke_key(self, name: str) -> None:
        """Make a key invalid, at once and for good."""
        with self._errors():
            keys.revoke_key(self._engine, name)

    def list_keys(self) -> Sequence[Key]:
        """Every key, revoked ones included, the oldest first."""
        with self._errors():
            return keys.list_keys(self._engine)

    def check(self) -> None:
        """A StoreError where the database is gone, stopped or damaged; see `checking.check`."""
        with self._errors():
            check(self._checking, self.where, None if self._damaged else CHECK_SECONDS)
            self._damaged = False

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with store_errors(self.where):
                yield
        except StoreError as error:
            self._damaged |= error.kind == "damaged"
            if error.kind in ("gone", "damaged", "refused"):
                self._engine.dispose()  # what open connections remember of the file may be wrong by now
            raise
