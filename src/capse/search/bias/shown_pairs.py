"""The pairs of a query and a document that a log shows again and again: what does not depend on the place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capse.arrays import Float64s, Int64s
from capse.search.logs.search_log import SearchLog


def pair_keys(log: SearchLog, rows: Int64s) -> Int64s:
    """(r,) a number for the query and the document of each of these result rows."""
    return log.query[log.impression[rows]].astype(np.int64) * len(log.documents) + log.document[rows]


@dataclass(frozen=True)
class PairCounts:
    """How often each pair was shown and clicked at each place: one cell for a pair and a place that it was shown at."""

    pair: Int64s  # (cells,) numbers from 0
    place: Int64s  # (cells,) from 0
    shown: Float64s  # (cells,)
    clicked: Float64s  # (cells,)

    @classmethod
    def of(cls, log: SearchLog, rows: Int64s) -> PairCounts:
        """Counts over result rows of a log."""
        place = log.rank[rows].astype(np.int64) - 1
        span = int(place.max(initial=0)) + 1
        cells, owner = np.unique(pair_keys(log, rows) * span + place, return_inverse=True)
        pairs = np.unique(cells // span, return_inverse=True)[1]
        shown = np.bincount(owner, minlength=len(cells)).astype(np.float64)
        clicked = np.bincount(owner, log.clicked[rows], minlength=len(cells)).astype(np.float64)
        return cls(pairs, cells % span, shown, clicked)

    def telling(self) -> PairCounts:
        """The pairs that say something of places: clicked at least once, and shown at two places or more."""
        count = int(self.pair.max(initial=-1)) + 1
        kept = (np.bincount(self.pair, minlength=count) > 1) & (np.bincount(self.pair, self.clicked, count) > 0)
        cells = np.flatnonzero(kept[self.pair])
        pairs = np.unique(self.pair[cells], return_inverse=True)[1]
        return PairCounts(pairs, self.place[cells], self.shown[cells], self.clicked[cells])
