"""Two runs that served at once, compared by what their users did, as it is stored.

Everything is of lists that were kept, and a click belongs to the list that `stored_log` binds it to. Users are what
was dealt between the runs, so intervals and tests are over users. Who had lists of both runs, because the share was
changed meanwhile, is left out.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, select

from capse.errors import DataError
from capse.search.evaluation.two_runs import ListOutcome
from capse.search.logs.actions import EventWeights
from capse.search.times import DAY
from capse.service.store import Store
from capse.service.store.event import ACTIONS
from capse.service.store.schema import events, lists
from capse.service.stored_log import list_of

_USERS_AT_ONCE = 500


@dataclass
class StoredTrial:
    """The lists of a trial, with what was done."""

    name: str
    outcomes: list[ListOutcome] = field(default_factory=list)
    versions: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  # of each arm: its lists
    in_both: int = 0  # users who had lists of both runs, and are left out
    interleaved: bool = False


def trials(store: Store) -> dict[str, int]:
    """The trials of which lists are stored, and how many."""
    with store.reading() as connection:
        named = connection.execute(select(lists.c.trial).where(lists.c.trial.is_not(None))).scalars()
        return dict(Counter(named))


def read_trial(store: Store, name: str, since: int = 0, weights: EventWeights | None = None) -> StoredTrial:
    """What came of a trial; a DataError where nothing of it is stored, or where it was of both kinds."""
    with store.reading() as connection:
        wanted = select(lists).where(lists.c.trial == name, lists.c.time >= since)
        rows = connection.execute(wanted.order_by(lists.c.user, lists.c.time, lists.c.number)).all()
        found = StoredTrial(name)
        _check(name, rows)
        found.interleaved = len(rows[0].arm) > 1
        arms = _arms(rows) if not found.interleaved else {}
        found.in_both = sum(len(of) > 1 for of in arms.values())
        taking_part = [row for row in rows if len(arms.get(row.user, "")) < 2]
        for row in taking_part:
            found.versions["a+b" if found.interleaved else row.arm][row.model] += 1
        done = _done(connection, {row.user for row in taking_part}, since)
        found.outcomes = [_outcome(row, done[row.number], weights or EventWeights()) for row in taking_part]
        return found


def _check(name: str, rows: Sequence[Row[Any]]) -> None:
    if not rows:
        raise DataError(f"no list of a trial {name!r} is stored", "see which there are: capse search trial DATABASE")
    kinds = {len(row.arm) > 1 for row in rows}
    if len(kinds) > 1:
        raise DataError(
            f"the trial {name!r} has interleaved lists and others", "name trials apart, or leave one out with --since"
        )


def _arms(rows: Sequence[Row[Any]]) -> dict[int, set[str]]:
    """Of each user."""
    found: dict[int, set[str]] = defaultdict(set)
    for row in rows:
        found[row.user].add(row.arm)
    return found


def _done(connection: Connection, users: set[int], since: int) -> dict[int, list[Row[Any]]]:
    """By the number of the list that it belongs to: satisfied clicks, and what else was done."""
    found: dict[int, list[Row[Any]]] = defaultdict(list)
    ordered = sorted(users)
    for start in range(0, len(ordered), _USERS_AT_ONCE):
        part = ordered[start : start + _USERS_AT_ONCE]
        shown = _by_user(connection.execute(select(lists).where(lists.c.user.in_(part), lists.c.time >= since - DAY)))
        wanted = select(events).where(events.c.user.in_(part), events.c.kind.in_(("click", *ACTIONS)))
        for user, done in _by_user(connection.execute(wanted.where(events.c.time >= since))).items():
            before = [(row, json.loads(row.documents)) for row in shown.get(user, [])]
            times = [row.time for row, _ in before]
            for event in done:
                number = list_of(event, before[: bisect_right(times, event.time)])
                if number is not None and (event.kind != "click" or event.folded is not None):
                    found[number].append(event)
    return found


def _by_user(rows: Iterable[Row[Any]]) -> dict[int, list[Row[Any]]]:
    found: dict[int, list[Row[Any]]] = defaultdict(list)
    for row in sorted(rows, key=lambda one: (one.user, one.time, one.number)):
        found[row.user].append(row)
    return found


def _outcome(row: Row[Any], done: Sequence[Row[Any]], weights: EventWeights) -> ListOutcome:
    documents, shown = json.loads(row.documents), json.loads(row.shown)
    ranks = {documents[place - 1]: rank for rank, place in reversed(list(enumerate(shown, start=1)))}
    clicked = {ranks[event.document] for event in done if event.kind == "click"}
    return ListOutcome(row.user, row.arm, tuple(sorted(clicked)), _worth(done, weights))


def _worth(done: Sequence[Row[Any]], weights: EventWeights) -> float:
    """What was done with the documents of a list: of each the highest weight, but a dislike counts against it."""
    kinds: dict[str, set[str]] = defaultdict(set)
    for event in done:
        kinds[event.document].add(event.kind)
    return sum(
        -weights.dislike if "dislike" in of else max(getattr(weights, kind) for kind in of) for of in kinds.values()
    )
