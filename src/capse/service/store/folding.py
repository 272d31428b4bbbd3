"""What requests make of what is stored, in memory: each event once, each user's state folded over what counts.

A user's state is the fold over the user's satisfied clicks in the order in which they came to count. A click that does
not count (yet) is kept and not folded. It is folded when its dwell arrives and suffices. One that counted while its
dwell was unknown, or while it was the last of its session, may stop counting: it is then taken out of the state.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from capse.errors import EventConflictError
from capse.search.satisfaction import Satisfaction
from capse.search.users.profiles import REMEMBERED
from capse.search.users.user_state import DocumentText, PastAction, PastClick, UserState
from capse.service.limits import REMEMBERED_TEXT
from capse.service.store.event import ACTIONS, Event

Outcome = Literal["accepted", "repeated"]
EventKey = tuple[str, str]  # user and id
SessionKey = tuple[str, str]  # user and session
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class EventRow:
    """An event and its place in its user's state."""

    event: Event
    folded: int | None = None  # its place, from 1, among the user's clicks that were folded; None: not folded
    stored: bool = False  # whether the database has it already


@dataclass(frozen=True)
class UserRow:
    """A user's state and how many clicks have been folded into it so far."""

    state: UserState | None = None  # as it is stored; None: nothing counted yet, or it is to be folded again
    folded: int = 0
    number: int | None = None  # None: the database does not have the user yet
    stale: bool = False  # a click was taken back that cannot simply be taken out: fold again


@dataclass(frozen=True)
class LastClicks:
    """The latest clicks of a session: several, where they happened at the same moment."""

    time: int
    ids: frozenset[str]


@dataclass(frozen=True)
class Batch:
    """All that a transaction has read, and what is to be written at its end."""

    rule: Satisfaction
    events: MutableMapping[EventKey, EventRow] = field(default_factory=dict)
    users: MutableMapping[str, UserRow] = field(default_factory=dict)
    dwells: MutableMapping[EventKey, float] = field(default_factory=dict)  # by their clicks: the longest reported
    last: MutableMapping[SessionKey, LastClicks] = field(default_factory=dict)
    changed_events: dict[EventKey, None] = field(default_factory=dict)  # in the order of arrival
    changed_users: dict[str, None] = field(default_factory=dict)
    steps: list[tuple[EventKey, int]] = field(default_factory=list)  # see `capse.service.store.changes`

    def apply(self, events: Iterable[Event]) -> list[Outcome]:
        """Take one request's events, all or none."""
        outcomes: list[Outcome] = []
        fresh: dict[EventKey, Event] = {}
        for event in events:
            key = event.user, event.id
            known = fresh.get(key) or (self.events[key].event if key in self.events else None)
            if known is not None and _as_sent(known) != _as_sent(event):
                raise EventConflictError(event.id)
            outcomes.append("accepted" if known is None else "repeated")
            fresh.setdefault(key, event)
        draft = replace(
            self,
            events=_over(self.events),
            users=_over(self.users),
            dwells=_over(self.dwells),
            last=_over(self.last),
            steps=[],
        )
        for key, event in fresh.items():
            if key not in self.events:
                draft._take(event)
        self.events.update(_own(draft.events))
        self.users.update(_own(draft.users))
        self.dwells.update(_own(draft.dwells))
        self.last.update(_own(draft.last))
        self.changed_events.update(dict.fromkeys(_own(draft.events)))
        self.changed_users.update(dict.fromkeys(_own(draft.users)))
        self.steps.extend(draft.steps)
        return outcomes

    def _take(self, event: Event) -> None:
        self.events[event.user, event.id] = EventRow(event)
        if event.user not in self.users:
            self.users[event.user] = UserRow()
        if event.kind == "impression":
            self.steps.append(((event.user, event.id), 1))
        elif event.kind == "click":
            for former in self._follow(event):
                self._judge(former)
            self._judge(event)
        elif event.kind in ACTIONS:
            user = self.users[event.user]
            state = _copied(user.state)
            state.act(past_action(event))
            self.users[event.user] = replace(user, state=state)
            self.steps.append(((event.user, event.id), 1))
        elif event.kind == "dwell":
            assert event.click is not None
            assert event.dwell is not None
            key = event.user, event.click
            self.dwells[key] = max(event.dwell, self.dwells.get(key, 0.0))
            click = self.events.get(key)
            if click is not None and click.event.kind == "click":
                self._judge(click.event)

    def _follow(self, click: Event) -> list[Event]:
        """Note a click among the last of its session; those that were the last and are no longer."""
        key = click.user, click.session
        before = self.last.get(key)
        if before is None or click.time > before.time:
            self.last[key] = LastClicks(click.time, frozenset([click.id]))
            return [] if before is None else [self.events[click.user, id].event for id in sorted(before.ids)]
        if click.time == before.time:
            self.last[key] = LastClicks(click.time, before.ids | {click.id})
        return []

    def _judge(self, click: Event) -> None:
        """Fold a click that counts from now on; take one back that does not count any more."""
        key = click.user, click.id
        reported = [dwell for dwell in (click.dwell, self.dwells.get(key)) if dwell is not None]
        last = click.id in self.last[click.user, click.session].ids
        counts, row = self.rule.counts(max(reported, default=None), last=last), self.events[key]
        if counts and row.folded is None:
            self._count(row)
        elif not counts and row.folded is not None:
            self.events[key] = replace(row, folded=None)
            self.steps.append((key, -1))
            self._take_back(click)

    def _count(self, row: EventRow) -> None:
        click, user = row.event, self.users[row.event.user]
        state = _copied(user.state)
        past = past_click(click)
        text = text_of(click) or state.texts.get(past.document)
        if text is not None:  # it stays known by its text when the click that told it is forgotten
            click = click.model_copy(update={"title": text.title, "text": text.text})
        state.click(past, text)
        self.users[click.user] = replace(user, state=state, folded=user.folded + 1)
        self.events[click.user, click.id] = replace(row, event=click, folded=user.folded + 1)
        self.steps.append(((click.user, click.id), 1))

    def _take_back(self, click: Event) -> None:
        """Take a click out of the state, or have it folded again where older clicks or texts may come back."""
        user, past = self.users[click.user], past_click(click)
        state = _copied(user.state)
        simple = len(state.clicks) < REMEMBERED and state.clicks.count(past) == 1 and past.document not in state.texts
        if simple:
            state.clicks.remove(past)
        self.users[click.user] = replace(user, state=state, stale=user.stale or not simple)


def past_click(event: Event) -> PastClick:
    """A satisfied click as a state remembers it."""
    return PastClick(event.document or "", event.session, event.time, event.query)


def past_action(event: Event) -> PastAction:
    """Another event as a state remembers it."""
    return PastAction(event.document or "", event.kind, event.time)


def text_of(event: Event) -> DocumentText | None:
    """What a state remembers of a document by its text: the beginning."""
    if not event.title and not event.text:
        return None
    return DocumentText(event.title, None if event.text is None else event.text[:REMEMBERED_TEXT])


def folded(clicks: Iterable[Event], actions: Iterable[Event] = ()) -> UserState:
    """A state from clicks that count, in that order, and from other events in theirs."""
    state = UserState()
    for action in actions:
        state.act(past_action(action))
    for click in clicks:
        state.click(past_click(click), text_of(click))
    return state


def _as_sent(event: Event) -> Event:
    """Without what depends on whether the run knew the document when it came."""
    return event.model_copy(update={"title": "", "text": None}) if event.title or event.text else event


def _copied(state: UserState | None) -> UserState:
    return UserState() if state is None else UserState(list(state.clicks), dict(state.texts), list(state.actions))


def _over(below: MutableMapping[_Key, _Value]) -> MutableMapping[_Key, _Value]:
    return ChainMap({}, below)


def _own(above: MutableMapping[_Key, _Value]) -> MutableMapping[_Key, _Value]:
    """What was set in a mapping that lies over another."""
    assert isinstance(above, ChainMap)
    return above.maps[0]
