"""The cascade with several clicks, the dependent click model (Guo et al., WSDM 2009): a list is read from the top.

A result that is looked at is clicked with the attraction γ_qd of its pair. Whoever clicks reads on with probability λ;
whoever does not, reads on. So the results above the last click were all looked at, and those below it with

    q = λ S / (1 − λ + λ S),    S = Π of 1 − γ over the results below the last click

which is the E-step; the M-step takes γ as clicks per look and λ as the share of clicks after which somebody read on.
With λ = 0 it is the cascade of Craswell et al. (WSDM 2008). A result at place p is looked at with

    e_1 = 1,    e_{p+1} = e_p (1 − γ_p (1 − λ))
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from capse.arrays import Float64s, Int64s
from capse.errors import DataError
from capse.search.bias.shown_pairs import pair_keys
from capse.search.logs.search_log import SearchLog

ROUNDS = 500  # at most
CHANGE = 1e-7  # of λ in a round, below which the search ends
PRIOR = 1.0  # looks at a pair of the average attraction that every pair begins with


@dataclass(frozen=True)
class CascadeModel:
    """How attractive pairs are, and with which probability somebody reads on after a click."""

    continuation: float  # λ
    average: float  # γ of a pair that was never shown
    pairs: Int64s = field(repr=False)  # (pairs,) ascending keys
    attraction: Float64s = field(repr=False)  # (pairs,) γ

    def of(self, log: SearchLog) -> Float64s:
        """(m,) the probability that a result was looked at, given what stands above it."""
        keys = pair_keys(log, np.arange(len(log.document)))
        place = np.minimum(np.searchsorted(self.pairs, keys), len(self.pairs) - 1)
        gamma = np.where(self.pairs[place] == keys, self.attraction[place], self.average)
        order = np.lexsort((log.rank, log.impression))
        stays = np.log1p(-gamma[order] * (1 - self.continuation))
        found = np.empty(len(keys))
        found[order] = np.exp(_above(stays, log.lengths))
        return found

    @classmethod
    def fit(cls, log: SearchLog, impressions: Int64s) -> CascadeModel:
        """Estimated from the clicks on these lists."""
        rows = log.rows(impressions)
        rows = rows[np.lexsort((log.rank[rows], np.repeat(np.arange(len(impressions)), log.lengths[impressions])))]
        lengths, clicked = log.lengths[impressions], log.clicked[rows].astype(np.float64)
        if not clicked.any():
            raise DataError(f"the log {log.name!r} has no click in these lists", "take more of it")
        pairs, pair = np.unique(pair_keys(log, rows), return_inverse=True)
        average, gamma = float(clicked.mean()), np.full(len(pairs), float(clicked.mean()))
        clicks = np.bincount(pair, clicked)
        lists = np.repeat(np.arange(len(lengths)), lengths)
        done = _above(clicked, lengths) + clicked  # clicks up to here
        total = np.bincount(lists, clicked, len(lengths))
        below = (done == total[lists]) & (clicked == 0) & (total[lists] > 0)  # what stands below the last click
        tail = np.bincount(lists, below, len(lengths)) > 0  # lists where anything does
        continued, continuation = float(clicked.sum() - (total > 0).sum()), 0.5
        for _ in range(ROUNDS):
            kept = np.exp(np.bincount(lists[below], np.log1p(-gamma[pair[below]]), len(lengths)))  # S
            reading = continuation * kept / (1 - continuation + continuation * kept)
            looked = np.where(below, reading[lists], 1.0)
            before, continuation = continuation, (continued + reading[tail].sum()) / (continued + tail.sum())
            looks = np.bincount(pair, looked)
            average = float(clicks.sum() / looks.sum())
            gamma = np.minimum((clicks + PRIOR * average) / (looks + PRIOR), 1 - 1e-9)
            if abs(continuation - before) < CHANGE:
                break
        return cls(float(continuation), average, pairs, gamma)


def _above(values: Float64s, lengths: Int64s) -> Float64s:
    """(rows,) the sum of what stands before each row in its list."""
    before = np.cumsum(values) - values
    starts = np.cumsum(lengths) - lengths
    return np.asarray(before - np.repeat(before[starts[lengths > 0]], lengths[lengths > 0]), np.float64)
