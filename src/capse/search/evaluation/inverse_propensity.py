"""What a biased log says of a ranking once clicks count for what nobody looked at (Joachims et al., WSDM 2017).

With a weight w_c for click c and f the reciprocal rank, whether it is the first, or the discount of its rank,

    IPS    Σ_c w_c f(rank of c) / number of lists       unbiased where the propensities are right, and of large variance
    SNIPS  Σ_c w_c f(rank of c) / Σ_c w_c               slightly biased, of less variance (Swaminathan, Joachims 2015)

A list with several clicks counts once for each, so these figures are not those of whole lists, and stand beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capse.arrays import Bools, Float64s, Int64s
from capse.evaluation.clusters import cluster_interval, cluster_p_value
from capse.search.evaluation.list_metrics import NAMES, click_metrics


@dataclass(frozen=True)
class ClickGain:
    """SNIPS MRR of a ranker minus that of another, over users."""

    difference: float
    low: float  # 95 % bootstrap interval, users being drawn
    high: float
    p_value: float  # two-sided t-test with users as clusters


@dataclass(frozen=True)
class WeightedClicks:
    """Satisfied clicks of judged lists, and what each counts for."""

    relevant: Bools  # (rows,)
    lengths: Int64s  # (lists,)
    weights: Float64s  # (rows,) of clicks; what others have is of no account
    owners: Int64s  # (lists,) users

    def figures(self, scores: Float64s, *, seed: int = 0) -> dict[str, dict[str, object]]:
        """``ips`` and ``snips``: each metric under its name, and ``intervals_over_users`` with low and high."""
        table, weights = self._table(scores), self._weights
        lists, count = self._lists, len(self.lengths)
        sums = np.stack([np.bincount(lists, weights * column, count).astype(np.float64) for column in table.T], axis=1)
        low_high = cluster_interval(sums, self.owners, seed=seed)
        ratio = cluster_interval(table, self.owners[lists], seed=seed, weights=weights)
        snips = np.average(table, axis=0, weights=weights)
        return {"ips": _named(sums.mean(axis=0), low_high), "snips": _named(snips, ratio)}

    def gain(self, scores: Float64s, other: Float64s, *, seed: int = 0) -> ClickGain:
        """Of one ranker's scores over another's."""
        difference = self._table(scores)[:, 0] - self._table(other)[:, 0]
        owners, weights = self.owners[self._lists], self._weights
        low, high = cluster_interval(difference, owners, seed=seed, weights=weights).tolist()
        p_value = cluster_p_value(difference, owners, weights)
        return ClickGain(float(np.average(difference, weights=weights)), low, high, p_value)

    def differences(self, scores: Float64s, other: Float64s) -> Float64s:
        """(lists,) the sum over a list's clicks of what one ranker's scores gain over another's, by their weights."""
        gained = self._table(scores)[:, 0] - self._table(other)[:, 0]
        return np.bincount(self._lists, self._weights * gained, len(self.lengths)).astype(np.float64)

    def snips_mrr(self, scores: Float64s) -> float:
        return float(np.average(self._table(scores)[:, 0], weights=self._weights))

    def _table(self, scores: Float64s) -> Float64s:
        return click_metrics(scores, self.relevant, self.lengths).table

    @property
    def _lists(self) -> Int64s:
        """(clicks,)"""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)[self.relevant]

    @property
    def _weights(self) -> Float64s:
        return self.weights[self.relevant]


def _named(means: Float64s, interval: Float64s) -> dict[str, object]:
    intervals = dict(zip(NAMES, interval.T.tolist(), strict=True))
    return dict(zip(NAMES, means.tolist(), strict=True)) | {"intervals_over_users": intervals}
