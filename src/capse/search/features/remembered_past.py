"""Earlier clicks as one list that is shown now sees them, found in what is remembered: of its user, and of everyone.

Queries and documents are numbered as they are met (`Numbers`), so that only those that count are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat

import numpy as np

from capse.arrays import Float64s, Int64s
from capse.search.features.earlier import Pairs
from capse.search.features.past import EVERYONE, MOST_LIKENESSES, MOST_PAIRS, Clicked, Scope
from capse.search.logs.field_values import TextSets
from capse.search.times import DAY, SECOND
from capse.search.users.everyone import Everyone
from capse.search.users.user_state import PastClick


class Numbers(dict[str, int]):
    """A number for each name, in the order in which they are met."""

    def of(self, names: Sequence[str]) -> Int64s:
        return np.array([self.setdefault(name, len(self)) for name in names], np.int64)


@dataclass(frozen=True)
class ShownNow:
    """The results of one list, and the names that its past is told in."""

    documents: Sequence[str]  # (r,)
    time: int  # microseconds
    places: Mapping[str, Mapping[str, str]]  # kind -> document -> place, of results and of clicked documents
    queries: Numbers = field(default_factory=Numbers)  # the one that is asked now is the first
    compared: Numbers = field(default_factory=Numbers)  # documents; the results are the first
    texts: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)  # field -> document -> texts
    numbers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # field -> document -> number

    def places_of(self, kind: str, documents: Sequence[str]) -> list[str]:
        return list(map(self.places[kind].get, documents, repeat("")))

    def here(self, kind: str) -> list[str]:
        """(r,) the places of the results."""
        return self._here[kind]

    @cached_property
    def _here(self) -> dict[str, list[str]]:
        return {kind: self.places_of(kind, self.documents) for kind in self.places}


@dataclass(frozen=True)
class UserPast:
    """A `Past` of one user, or of one session of the user."""

    scope: Scope
    clicks: Sequence[PastClick]  # the latest last
    shown: ShownNow

    @cached_property
    def total(self) -> Int64s:
        return np.full(len(self.shown.documents), len(self.clicks))

    def on_document(self) -> Clicked:
        return self._on_document

    def latest(self) -> Clicked:
        return self._latest

    @cached_property
    def _latest(self) -> Clicked:
        results, first = len(self.shown.documents), max(len(self.clicks) - MOST_LIKENESSES, 0)
        latest = np.arange(first, len(self.clicks))
        found = np.tile(latest, results)
        return self._clicked(Pairs(np.repeat(np.arange(results), len(latest)), found, results))

    def in_place(self, kind: str) -> tuple[Int64s, Int64s]:
        clicked = self.shown.places_of(kind, [click.document for click in self.clicks])
        ever, lately = Counter(clicked), Counter(clicked[-self.scope.window :])
        here = self.shown.here(kind)
        return _counted(ever, here), _counted(lately, here)

    def with_texts(self, name: str, texts: TextSets) -> tuple[Int64s, Int64s]:
        of = self.shown.texts[name]
        clicked = [of.get(click.document, ()) for click in self.clicks]
        ever = Counter(text for each in clicked for text in each)
        lately = Counter(text for each in clicked[-self.scope.window :] for text in each)
        return _counted(ever, texts.texts), _counted(lately, texts.texts)

    def numbers_lately(self, name: str) -> tuple[Clicked, Float64s]:
        found, of = self.latest(), self.shown.numbers[name]
        numbers = np.array([of.get(document, np.nan) for document in self.shown.compared], np.float64)
        return found, numbers[found.document]

    @cached_property
    def _on_document(self) -> Clicked:
        of: dict[str, list[int]] = {}
        for place, click in enumerate(self.clicks):
            of.setdefault(click.document, []).append(place)
        found = [of.get(document, [])[-MOST_PAIRS:] for document in self.shown.documents]
        asked = np.repeat(np.arange(len(found)), [len(each) for each in found])
        return self._clicked(Pairs(asked, np.array([place for each in found for place in each], np.int64), len(found)))

    def _clicked(self, pairs: Pairs) -> Clicked:
        places, each = np.unique(pairs.found, return_inverse=True)
        clicks = [self.clicks[place] for place in places.tolist()]
        age = np.maximum(self.shown.time - np.array([click.time for click in clicks], np.int64), 0) / SECOND
        query = self.shown.queries.of([click.query for click in clicks])
        document = self.shown.compared.of([click.document for click in clicks])
        return Clicked(pairs, len(self.clicks) - 1 - pairs.found, age[each], query[each], document[each])


def _counted(counts: Counter[str], names: Sequence[str]) -> Int64s:
    return np.array(list(map(counts.get, names, repeat(0))), np.int64)  # `counts[name]` calls Python for absent ones


@dataclass(frozen=True)
class EveryonePast:
    """A `PublicPast` of all people."""

    everyone: Everyone
    shown_now: ShownNow
    scope: Scope = EVERYONE

    @cached_property
    def total(self) -> Int64s:
        return np.full(len(self.shown_now.documents), self.everyone.clicks)

    def on_document(self) -> Clicked:
        return self._on_document

    def latest(self) -> Clicked:
        raise NotImplementedError("likeness is a feature of users and sessions")

    def in_place(self, kind: str) -> tuple[Int64s, Int64s]:
        tally, here = self.everyone.places[kind], self.shown_now.here(kind)
        return _counted(tally.clicked, here), _counted(tally.lately, here)

    def shown(self) -> Int64s:
        return np.full(len(self.shown_now.documents), self.everyone.shown)

    def with_texts(self, name: str, texts: TextSets) -> tuple[Int64s, Int64s]:
        raise NotImplementedError("shares of clicks are features of users and sessions")

    def numbers_lately(self, name: str) -> tuple[Clicked, Float64s]:
        raise NotImplementedError("means of numbers are features of users and sessions")

    def rate_of_texts(self, name: str, texts: TextSets, days: int | None = None) -> tuple[Int64s, Int64s]:
        asked = texts.texts
        if days is None:
            tally = self.everyone.texts[name]
            return _counted(tally.clicked, asked), _counted(tally.shown, asked)
        return self._on_days(days, [(name, text) for text in asked])

    def within(self, days: int) -> tuple[Int64s, Int64s]:
        return self._on_days(days, [("", document) for document in self.shown_now.documents])

    def _on_days(self, days: int, asked: Sequence[tuple[str, str]]) -> tuple[Int64s, Int64s]:
        today = self.shown_now.time // DAY
        found = self.everyone.days.tallies(range(today - days + 1, today + 1))
        clicked = [sum(tally.clicked[key] for tally in found) for key in asked]
        return np.array(clicked, np.int64), np.array(
            [sum(tally.shown[key] for tally in found) for key in asked], np.int64
        )

    def rate(self, kind: str) -> tuple[Int64s, Int64s]:
        if kind == "document":
            tally, here = self.everyone.documents, list(self.shown_now.documents)
        else:
            tally, here = self.everyone.places[kind], self.shown_now.here(kind)
        return _counted(tally.clicked, here), _counted(tally.shown, here)

    @cached_property
    def _on_document(self) -> Clicked:
        found = [self.everyone.on(document) for document in self.shown_now.documents]
        asked = np.repeat(np.arange(len(found)), [len(each) for each in found])
        clicks = [click for each in found for click in each]
        numbers, times = (np.array([click[place] for click in clicks], np.int64) for place in (0, 1))
        age = np.maximum(self.shown_now.time - times, 0) / SECOND
        query = self.shown_now.queries.of([click.query for click in clicks])
        back = self.everyone.numbered - 1 - numbers
        return Clicked(Pairs(asked, np.arange(len(clicks)), len(found)), back, age, query, np.zeros_like(query))
