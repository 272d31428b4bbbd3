"""Features of earlier clicks, for three circles of people: this session, this user, everyone.

Bennett et al. (2012) call them session, historic and aggregate features.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from capse.arrays import Float64s, Int64s
from capse.search.features.earlier import Earlier, KnownClicks, Pairs, joined
from capse.search.features.query_pairs import QueryPairs
from capse.search.features.text_match import TextMatch
from capse.search.logs.titles import extension, folder, leaf, site
from capse.search.times import SECOND
from capse.search.vectors.sparse_rows import codes, paired

Columns = dict[str, Float64s]
PLACES = {"site": site, "folder": folder, "leaf": leaf, "extension": extension}


@dataclass(frozen=True)
class Scope:
    """Whose clicks count, and how fast they fade: by ``decay`` for every later click of the scope."""

    name: str
    decay: float
    window: int  # how many of the scope's clicks are 'lately'


SESSION = Scope("session", 0.95, 10)
USER = Scope("user", 0.95, 20)
EVERYONE = Scope("everyone", 0.999, 1000)
MOST_PAIRS = 100  # earlier clicks on one document that are looked at, the latest
MOST_LIKENESSES = 20  # earlier clicks of one user that a document is compared with, the latest


@dataclass(frozen=True)
class ScopedClicks:
    """The earlier clicks of a scope, seen from some result rows of the log."""

    scope: Scope
    clicks: KnownClicks
    rows: Int64s  # (r,)
    text: TextMatch

    def on_document(self) -> Columns:
        """How often and how lately this document was clicked."""
        pairs, back = self._same_document
        log, times = self.clicks.log, self.clicks.time
        age = np.maximum(log.time[log.impression[self.rows[pairs.asked]]] - times[pairs.found], 0) / SECOND
        return {
            "clicks": pairs.total(np.ones(len(back))),
            "decayed_clicks": pairs.total(self.scope.decay**back),
            "steps_back": -pairs.highest(-back),
            "age": np.log1p(-pairs.highest(-age)),
        }

    def for_query(self, queries: QueryPairs) -> Columns:
        """How often this document was clicked for the same query, a part of it, more than it, one like it."""
        pairs, _ = self._same_document
        log = self.clicks.log
        now = log.query[log.impression[self.rows[pairs.asked]]]
        then = log.query[self.clicks.impressions[pairs.found]]
        same, alike = queries.same(now, then), queries.alike(now, then)
        return {
            "same_query": pairs.total(same),
            "sub_query": pairs.total(queries.within(then, now) & ~same),
            "super_query": pairs.total(queries.within(now, then) & ~same),
            "most_alike_query": np.nan_to_num(pairs.highest(alike)),
            "alike_queries": pairs.total(alike),
            "very_alike_queries": pairs.total(alike**3),
        }

    def in_places(self) -> Columns:
        """The share of clicks, ever and lately, on documents of the same site, folder, name and kind."""
        begin = self._all.since(self._scope[self.rows], self._known, self.scope.window)
        columns: Columns = {}
        for name, code in self.places.items():
            keys = joined(self._scope, code[self.clicks.log.document], len(code))
            earlier = self.clicks.by(keys)
            ever = earlier.counts(keys[self.rows], self._known)
            lately = ever - earlier.counts(keys[self.rows], begin)
            columns[f"{name}_share"] = ever / (self.total + 1)
            columns[f"{name}_lately"] = lately / (np.minimum(self.total, self.scope.window) + 1)
        return columns

    def likeness(self, queries: QueryPairs) -> Columns:
        """How like this document the latest clicked ones are, in title and text, and so for queries like this one."""
        pairs = self._all.pairs(self._scope[self.rows], self._known, MOST_LIKENESSES)
        log = self.clicks.log
        weight = self.scope.decay ** self._back(pairs)
        weights = np.maximum(pairs.total(weight), 1e-9)
        here, there = log.document[self.rows[pairs.asked]], log.document[self.clicks.rows[pairs.found]]
        now = log.query[log.impression[self.rows[pairs.asked]]]
        alike = queries.alike(now, log.query[self.clicks.impressions[pairs.found]])
        columns: Columns = {}
        for name, vectors in (("title", self.text.title_vectors), ("text", self.text.text_vectors)):
            likeness = paired(vectors, here, vectors, there)
            columns[f"{name}_likeness"] = pairs.total(weight * likeness) / weights
            columns[f"{name}_most_alike"] = np.nan_to_num(pairs.highest(likeness))
            columns[f"{name}_for_alike_queries"] = pairs.total(alike * likeness)
        return columns

    def rates(self) -> Columns:
        """How often documents were clicked when shown, each rate smoothed by five showings at the rate of all."""
        log = self.clicks.log
        nothing = np.zeros(len(log.document), np.int64)
        here = nothing[self.rows]
        clicked, shown = self.total, self.clicks.shown_by(nothing).counts(here, self._known)
        overall = (clicked + 1) / (shown + 10)
        columns: Columns = {}
        for name, code in {"document": np.arange(len(log.documents)), **self.places}.items():
            keys = code[log.document]
            clicked = self.clicks.by(keys).counts(keys[self.rows], self._known)
            shown = self.clicks.shown_by(keys).counts(keys[self.rows], self._known)
            columns[f"{name}_rate"] = (clicked + 5 * overall) / (shown + 5)
        return columns

    @cached_property
    def total(self) -> Int64s:
        """(r,) earlier clicks of the scope."""
        return self._all.counts(self._scope[self.rows], self._known)

    @cached_property
    def places(self) -> dict[str, Int64s]:
        """(D,) under each kind of place, a number for where each document is."""
        titles = self.clicks.log.documents.titles
        return {name: codes(map(place, titles)) for name, place in PLACES.items()}

    @cached_property
    def _scope(self) -> Int64s:
        """(m,) the scope that each result row belongs to."""
        log = self.clicks.log
        if self.scope is EVERYONE:
            return np.zeros(len(log.document), np.int64)
        owner = log.session if self.scope is SESSION else log.user
        return owner[log.impression].astype(np.int64)

    @cached_property
    def _known(self) -> Int64s:
        """(r,) how many clicks, of anyone, each row may use."""
        return self.clicks.known[self.clicks.log.impression[self.rows]]

    @cached_property
    def _all(self) -> Earlier:
        return self.clicks.by(self._scope)

    @cached_property
    def _same_document(self) -> tuple[Pairs, Int64s]:
        """Earlier clicks of the scope on each row's document, and how many clicks of the scope came after each."""
        log = self.clicks.log
        keys = joined(self._scope, log.document, len(log.documents))
        pairs = self.clicks.by(keys).pairs(keys[self.rows], self._known, MOST_PAIRS)
        return pairs, self._back(pairs)

    def _back(self, pairs: Pairs) -> Int64s:
        return self.total[pairs.asked] - 1 - self._place[pairs.found]

    @cached_property
    def _place(self) -> Int64s:
        """(c,) how many clicks of its scope came before each click."""
        return self._all.counts(self._scope[self.clicks.rows], np.arange(len(self.clicks.rows)))
