"""Is one ranker better than another on the same lists? Over lists, as is usual, and over users with all of theirs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capse.arrays import Float64s, Int64s
from capse.evaluation.clusters import cluster_interval, cluster_p_value
from capse.evaluation.paired import compare

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class OverUsers:
    """The same difference, if other users had come."""

    users: int
    low: float  # 95 % bootstrap interval, users being drawn
    high: float
    p_value: float  # two-sided t-test with users as clusters


@dataclass(frozen=True)
class ListComparison:
    """MRR of the first minus that of the second, over the same lists."""

    difference: float
    low: float  # 95 % bootstrap interval, lists being drawn
    high: float
    p_value: float  # two-sided paired t-test over lists
    over_users: OverUsers

    @property
    def significant(self) -> bool:
        """Over users: lists of one user do not count as so many independent observations."""
        return self.over_users.p_value < SIGNIFICANT

    @property
    def verdict(self) -> str:
        """``above``, ``not significantly above``, ``below``, or ``below, though not significantly,``."""
        if self.difference >= 0:
            return "above" if self.significant else "not significantly above"
        return "below" if self.significant else "below, though not significantly,"


def compare_lists(first: Float64s, second: Float64s, users: Int64s, *, seed: int = 0) -> ListComparison:
    """Compare by what each list contributes (n,), given whose it is (n,).

    >>> luck, users = np.random.default_rng(0).random(60), np.repeat(np.arange(3), 20)
    >>> one_user_gains = compare_lists(luck + (users == 0), luck, users)
    >>> one_user_gains.p_value < 1e-4, one_user_gains.over_users.p_value > 0.1, one_user_gains.verdict
    (True, True, 'not significantly above')
    """
    over_lists = compare(first, second, seed=seed)
    difference = first - second
    low, high = cluster_interval(difference, users, seed=seed).tolist()
    over_users = OverUsers(len(np.unique(users)), low, high, cluster_p_value(difference, users))
    return ListComparison(over_lists.difference, over_lists.low, over_lists.high, over_lists.p_value, over_users)
