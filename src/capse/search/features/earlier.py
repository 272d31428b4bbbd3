"""Earlier clicks, found for all results at once.

Satisfied clicks are numbered 0, 1, ... in the order in which they happened, and ``known[i]`` says how many of them lie
before the cutoff of impression i: it may use a click if and only if the click's number is below ``known[i]``. That is
decided in one place, `KnownClicks.of`; all else is arithmetic on these numbers, whole columns at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numba
import numpy as np

from capse.arrays import Float64s, Int64s
from capse.search.logs.history import Clicks
from capse.search.logs.search_log import SearchLog


@dataclass(frozen=True)
class KnownClicks:
    """The satisfied clicks and the lists of a log, and how many of them each impression may use."""

    log: SearchLog
    rows: Int64s  # (c,) result rows, in the order in which they were clicked
    time: Int64s  # (c,)
    known: Int64s  # (n,) clicks
    seen: Int64s  # (n,) lists that were shown before

    @classmethod
    def of(cls, log: SearchLog, cutoffs: Int64s) -> KnownClicks:
        clicks = Clicks.of(log)
        known, seen = (np.searchsorted(times, cutoffs, side="left") for times in (clicks.time, log.time))
        return cls(log, clicks.rows, clicks.time, known, seen)

    @cached_property
    def impressions(self) -> Int64s:
        """(c,) the impression of each click."""
        return self.log.impression[self.rows]

    def by(self, keys: Any) -> Earlier:
        """The clicks to be looked up by a key that every result row of the log has (m,)."""
        return Earlier(keys[self.rows].astype(np.int64), np.arange(len(self.rows)))

    def shown_by(self, keys: Any) -> Earlier:
        """The showings to be looked up by such a key: a list counts as seen from its first satisfied click on."""
        first = np.full(len(self.log), -1)
        impressions, clicks = np.unique(self.impressions, return_index=True)
        first[impressions] = clicks
        moments = first[self.log.impression]
        order = np.argsort(moments, kind="stable")
        order = order[moments[order] >= 0]
        return Earlier(keys[order].astype(np.int64), moments[order])

    def all_shown_by(self, keys: Any) -> Earlier:
        """All showings to be looked up by such a key, clicked or not; their moments are numbers of impressions."""
        return Earlier(keys.astype(np.int64), self.log.impression)


@dataclass(frozen=True)
class Earlier:
    """Things that happened, each with a key and a moment (a click's number, say), to be looked up by both."""

    keys: Int64s  # (c,)
    moments: Int64s  # (c,) ascending

    def counts(self, keys: Int64s, known: Int64s, begin: Int64s | None = None) -> Int64s:
        """How many have this key and lie before this moment, and not before another one."""
        starts, ends = self._bounds(keys, known)
        if begin is not None:
            starts = np.minimum(self._bounds(keys, begin)[1], ends)
        return ends - starts

    def since(self, keys: Int64s, known: Int64s, number: int) -> Int64s:
        """The moment of the ``number``-th latest before this moment with this key, 0 where there are fewer."""
        starts, ends = self._bounds(keys, known)
        enough = ends - starts >= number
        places = self._order[np.where(enough, ends - number, 0)] if len(self.keys) else starts
        return np.where(enough, self.moments[places], 0) if len(self.keys) else np.zeros_like(starts)

    def pairs(self, keys: Int64s, known: Int64s, limit: int, begin: Int64s | None = None) -> Pairs:
        """For every (key, moment) asked, the ``limit`` latest with this key before this moment, none before another."""
        starts, ends = self._bounds(keys, known)
        if begin is not None:
            starts = np.minimum(self._bounds(keys, begin)[1], ends)
        starts = np.maximum(starts, ends - limit)
        lengths = ends - starts
        places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))
        return Pairs(np.repeat(np.arange(len(keys)), lengths), self._order[places], len(keys))

    def _bounds(self, keys: Int64s, known: Int64s) -> tuple[Int64s, Int64s]:
        """Where, in order of key and moment, those with this key before this moment begin and end."""
        places = np.searchsorted(self._distinct, keys)
        found = np.append(self._distinct, 0)[places] == keys
        found &= places < len(self._distinct)
        starts = np.searchsorted(self._sorted, places * self._span)
        ends = np.searchsorted(self._sorted, places * self._span + np.minimum(known, self._span - 1))
        return starts, np.where(found, ends, starts)

    @cached_property
    def _order(self) -> Int64s:
        return np.argsort(self.keys, kind="stable")

    @cached_property
    def _distinct(self) -> Int64s:
        return np.unique(self.keys)

    @cached_property
    def _sorted(self) -> Int64s:
        """(c,) one ascending number for key and moment together."""
        return np.searchsorted(self._distinct, self.keys[self._order]) * self._span + self.moments[self._order]

    @cached_property
    def _span(self) -> int:
        return int(self.moments.max(initial=0)) + 2


@dataclass(frozen=True)
class Pairs:
    """What was asked beside what was found for it, grouped by what was asked, the latest found last."""

    asked: Int64s  # (p,)
    found: Int64s  # (p,)
    size: int  # how many were asked

    def total(self, values: Any) -> Float64s:
        """(size,) the sum of a value over all that was found for each."""
        return np.bincount(self.asked, values, self.size).astype(np.float64)

    def highest(self, values: Any, nothing: float = np.nan) -> Float64s:
        """(size,) the highest value found for each, ``nothing`` where nothing was found."""
        best = np.full(self.size, -np.inf)
        _raise_to(best, self.asked, np.asarray(values, np.float64))
        best[best == -np.inf] = nothing
        return best


@numba.njit(cache=True)
def _raise_to(best: Any, asked: Any, values: Any) -> None:
    for p in range(len(asked)):
        if values[p] > best[asked[p]]:
            best[asked[p]] = values[p]


def joined(left: Any, right: Any, span: int) -> Int64s:
    """One key for two, the second below ``span``."""
    return np.asarray(left.astype(np.int64) * span + right, np.int64)
