"""Earlier clicks found in a whole log, for all of its results at once, by sorting them once and searching."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from capse.arrays import Float64s, Int64s
from capse.search.features.earlier import Earlier, KnownClicks, Pairs, joined
from capse.search.features.past import EVERYONE, MOST_LIKENESSES, MOST_PAIRS, PLACES, SESSION, Clicked, Scope
from capse.search.logs.field_values import TextSets
from capse.search.times import DAY, SECOND
from capse.search.users.profiles import REMEMBERED
from capse.search.vectors.sparse_rows import codes


@dataclass(frozen=True)
class LogPast:
    """A `PublicPast` of some result rows of a log; queries and documents have the log's numbers.

    Of one user the latest clicks count that are also remembered of one.
    """

    scope: Scope
    clicks: KnownClicks
    rows: Int64s  # (r,)

    @cached_property
    def total(self) -> Int64s:
        return self._all.counts(self._keys[self.rows], self._known, self._begin)

    def on_document(self) -> Clicked:
        return self._on_document

    def latest(self) -> Clicked:
        return self._clicked(self._all.pairs(self._keys[self.rows], self._known, MOST_LIKENESSES, self._begin))

    def in_place(self, kind: str) -> tuple[Int64s, Int64s]:
        code = self._places[kind]
        keys = joined(self._keys, code[self.clicks.log.document], len(code))
        earlier = self.clicks.by(keys)
        return tuple(earlier.counts(keys[self.rows], self._known, begin) for begin in (self._begin, self._lately))  # type: ignore[return-value] # two

    def shown(self) -> Int64s:
        nothing = np.zeros(len(self.clicks.log.document), np.int64)
        return self.clicks.all_shown_by(nothing).counts(nothing[self.rows], self._seen)

    def rate(self, kind: str) -> tuple[Int64s, Int64s]:
        log = self.clicks.log
        keys = log.document if kind == "document" else self._places[kind][log.document]
        clicked = self.clicks.by(keys).counts(keys[self.rows].astype(np.int64), self._known)
        return clicked, self.clicks.all_shown_by(keys).counts(keys[self.rows].astype(np.int64), self._seen)

    def with_texts(self, name: str, texts: TextSets) -> tuple[Int64s, Int64s]:
        of = self._texts(name)
        clicked = of.take(self.clicks.log.document[self.clicks.rows].astype(np.int64))
        keys = joined(self._keys[self.clicks.rows][clicked.owner], clicked.codes, len(of.labels))
        earlier, asked = (
            Earlier(keys, clicked.owner),
            joined(self._keys[self.rows][texts.owner], texts.codes, len(of.labels)),
        )
        return tuple(  # type: ignore[return-value] # two
            earlier.counts(asked, self._known[texts.owner], begin[texts.owner]) for begin in (self._begin, self._lately)
        )

    def numbers_lately(self, name: str) -> tuple[Clicked, Float64s]:
        found, numbers = self.latest(), self.clicks.log.fields.item[name]
        return found, np.asarray(numbers, np.float64)[found.document]

    def rate_of_texts(self, name: str, texts: TextSets, days: int | None = None) -> tuple[Int64s, Int64s]:
        of, log = self._texts(name), self.clicks.log
        clicked, shown = (
            of.take(log.document[self.clicks.rows].astype(np.int64)),
            of.take(log.document.astype(np.int64)),
        )
        known, seen = self._known[texts.owner], self._seen[texts.owner]
        first_click, first_list = (None, None) if days is None else self._since(days, texts.owner)
        return (
            Earlier(clicked.codes, clicked.owner).counts(texts.codes, known, first_click),
            Earlier(shown.codes, log.impression[shown.owner]).counts(texts.codes, seen, first_list),
        )

    def within(self, days: int) -> tuple[Int64s, Int64s]:
        keys = self.clicks.log.document.astype(np.int64)
        first_click, first_list = self._since(days, np.arange(len(self.rows)))
        return (
            self.clicks.by(keys).counts(keys[self.rows], self._known, first_click),
            self.clicks.all_shown_by(keys).counts(keys[self.rows], self._seen, first_list),
        )

    def _since(self, days: int, rows: Int64s) -> tuple[Int64s, Int64s]:
        """For some of the rows the first click and the first list of the latest days, the list's own day among them."""
        log = self.clicks.log
        begin = (log.time[log.impression[self.rows[rows]]] // DAY - days + 1) * DAY
        return np.searchsorted(self.clicks.time, begin), np.searchsorted(log.time, begin)

    def _texts(self, name: str) -> TextSets:
        """(D,) a field of the items."""
        of = self.clicks.log.fields.item[name]
        assert isinstance(of, TextSets)
        return of

    @cached_property
    def _on_document(self) -> Clicked:
        log = self.clicks.log
        keys = joined(self._keys, log.document, len(log.documents))
        return self._clicked(self.clicks.by(keys).pairs(keys[self.rows], self._known, MOST_PAIRS, self._begin))

    def _clicked(self, pairs: Pairs) -> Clicked:
        log, clicked = self.clicks.log, self.clicks.rows[pairs.found]
        now = log.time[log.impression[self.rows[pairs.asked]]]
        age: Float64s = np.maximum(now - self.clicks.time[pairs.found], 0) / SECOND
        back = self._known_place[pairs.asked] - 1 - self._place[pairs.found]
        query, document = log.query[log.impression[clicked]], log.document[clicked]
        return Clicked(pairs, back, age, query.astype(np.int64), document.astype(np.int64))

    @cached_property
    def _places(self) -> dict[str, Int64s]:
        """(D,) under each kind of place, a number for where each document is."""
        titles = self.clicks.log.documents.titles
        return {name: codes(map(place, titles)) for name, place in PLACES.items()}

    @cached_property
    def _keys(self) -> Int64s:
        """(m,) whose result each row is."""
        log = self.clicks.log
        if self.scope is EVERYONE:
            return np.zeros(len(log.document), np.int64)
        user = log.user[log.impression].astype(np.int64)
        return joined(user, log.session[log.impression], len(log.sessions)) if self.scope is SESSION else user

    @cached_property
    def _known(self) -> Int64s:
        """(r,) how many clicks, of anyone, each row may use."""
        return self.clicks.known[self.clicks.log.impression[self.rows]]

    @cached_property
    def _seen(self) -> Int64s:
        """(r,) how many lists, of anyone, were shown before."""
        return self.clicks.seen[self.clicks.log.impression[self.rows]]

    @cached_property
    def _begin(self) -> Int64s:
        """(r,) the first click that counts."""
        if self.scope is EVERYONE:
            return np.zeros(len(self.rows), np.int64)
        log = self.clicks.log
        users = log.user[log.impression]
        return self.clicks.by(users).since(users[self.rows].astype(np.int64), self._known, REMEMBERED)

    @cached_property
    def _lately(self) -> Int64s:
        """(r,) the first click that is one of the latest."""
        return np.maximum(self._begin, self._all.since(self._keys[self.rows], self._known, self.scope.window))

    @cached_property
    def _all(self) -> Earlier:
        return self.clicks.by(self._keys)

    @cached_property
    def _known_place(self) -> Int64s:
        """(r,) clicks of the scope, those that do not count any more among them."""
        return self._all.counts(self._keys[self.rows], self._known)

    @cached_property
    def _place(self) -> Int64s:
        """(c,) how many clicks of its scope came before each click."""
        return self._all.counts(self._keys[self.clicks.rows], np.arange(len(self.clicks.rows)))
