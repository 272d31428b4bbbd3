"""What requests make of what is stored, in memory: each event once, each user's state folded over what counts.

A user's state is the fold over the user's impressions and satisfied clicks in the order in which they came to count.
An unsatisfied click is kept and not folded. It is folded when its dwell arrives and suffices. One that counted for want
of a dwell and then turns out too short is taken back: the state is then folded again from all that still counts.
"""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from capse.errors import EventConflictError
from capse.service.store.event import Event, Satisfaction

State = dict[str, Any]
Fold = Callable[[State | None, Event], State | None]
Outcome = Literal["accepted", "repeated"]
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class EventRow:
    """An event and its place in its user's state."""

    event: Event
    folded: int | None = None  # its place, from 1, among the user's events that were folded; None: not folded
    stored: bool = False  # whether the database has it already


@dataclass(frozen=True)
class UserRow:
    """A user's state and how many events have been folded into it so far."""

    state: State | None = None
    folded: int = 0
    number: int | None = None  # None: the database does not have the user yet
    stale: bool = False  # a click was taken back: fold again
    text: str | None = None  # the state as it is stored


@dataclass(frozen=True)
class Batch:
    """All that a transaction has read, and what is to be written at its end."""

    fold: Fold
    rule: Satisfaction
    events: MutableMapping[str, EventRow] = field(default_factory=dict)
    users: MutableMapping[str, UserRow] = field(default_factory=dict)
    dwells: MutableMapping[tuple[str, str], float] = field(default_factory=dict)  # user and click: the longest reported
    changed_events: dict[str, None] = field(default_factory=dict)  # ids, in the order of arrival
    changed_users: dict[str, None] = field(default_factory=dict)

    def apply(self, events: Iterable[Event]) -> list[Outcome]:
        """Take one request's events, all or none."""
        outcomes: list[Outcome] = []
        fresh: dict[str, Event] = {}
        for event in events:
            known = fresh.get(event.id) or (self.events[event.id].event if event.id in self.events else None)
            if known is not None and known != event:
                raise EventConflictError(event.id)
            outcomes.append("accepted" if known is None else "repeated")
            fresh.setdefault(event.id, event)
        draft = replace(self, events=_over(self.events), users=_over(self.users), dwells=_over(self.dwells))
        for event in fresh.values():
            if event.id not in self.events:
                draft._take(event)
        for name, user in _own(draft.users).items():
            before = self.users.get(name)
            if before is None or user.state is not before.state:
                draft.users[name] = replace(user, text=encode(user.state))
        self.events.update(_own(draft.events))
        self.users.update(_own(draft.users))
        self.dwells.update(_own(draft.dwells))
        self.changed_events.update(dict.fromkeys(_own(draft.events)))
        self.changed_users.update(dict.fromkeys(_own(draft.users)))
        return outcomes

    def _take(self, event: Event) -> None:
        self.events[event.id] = EventRow(event)
        self.users.setdefault(event.user, UserRow())
        if event.kind == "impression":
            self._count(event)
        elif event.kind == "click":
            self._judge(event)
        else:
            assert event.click is not None
            assert event.dwell is not None
            key = event.user, event.click
            self.dwells[key] = max(event.dwell, self.dwells.get(key, 0.0))
            click = self.events.get(event.click)
            if click is not None and click.event.kind == "click" and click.event.user == event.user:
                self._judge(click.event)

    def _judge(self, click: Event) -> None:
        """Fold a click that counts from now on; take one back that does not count any more."""
        reported = [dwell for dwell in (click.dwell, self.dwells.get((click.user, click.id))) if dwell is not None]
        counts, row = self.rule.counts(max(reported, default=None)), self.events[click.id]
        if counts and row.folded is None:
            self._count(click)
        elif not counts and row.folded is not None:
            self.events[click.id] = replace(row, folded=None)
            self.users[click.user] = replace(self.users[click.user], stale=True)

    def _count(self, event: Event) -> None:
        user = self.users[event.user]
        state = self.fold(user.state, as_folded(event))
        self.users[event.user] = replace(user, state=state, folded=user.folded + 1)
        self.events[event.id] = replace(self.events[event.id], folded=user.folded + 1)


def as_folded(event: Event) -> Event:
    """What a fold gets to see: that a click counted, not how long it lasted, which may be reported only later."""
    return event.model_copy(update={"dwell": None}) if event.kind == "click" else event


def encode(state: State | None) -> str | None:
    """A state as it is stored."""
    return None if state is None else json.dumps(state, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def decode(text: str | None) -> State | None:
    """A state from what is stored."""
    if text is None:
        return None
    state: State = json.loads(text)
    return state


def _over(below: MutableMapping[_Key, _Value]) -> MutableMapping[_Key, _Value]:
    return ChainMap({}, below)


def _own(above: MutableMapping[_Key, _Value]) -> MutableMapping[_Key, _Value]:
    """What was set in a mapping that lies over another."""
    assert isinstance(above, ChainMap)
    return above.maps[0]
