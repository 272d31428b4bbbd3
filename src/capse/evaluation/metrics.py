"""Ranks to metrics: five metrics under four ways to treat ties.

A metric is a function of the rank, averaged over queries. *Optimistic*, *realistic* and *pessimistic* apply it to those
ranks. *Expected* averages it over all orders of the ties, which is what breaking ties at random gives on average: with
g competitors before the true candidate and e level with it, every rank from g + 1 to g + e + 1 is equally likely, so
the value is (F(g + e + 1) − F(g)) / (e + 1) with F(n) = f(1) + ... + f(n).

Adding a metric: one function of the rank and one line in METRICS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from capse.arrays import Float64s
from capse.evaluation.ranks import Ranks

Metric = Callable[[Float64s], Float64s]
Summary = dict[str, dict[str, Any]]  # policy -> metric -> a number (or an interval)


def rank(ranks: Float64s) -> Float64s:
    return ranks


def reciprocal_rank(ranks: Float64s) -> Float64s:
    return 1.0 / ranks


def hits_at(k: int) -> Metric:
    """Whether the rank is k or better."""
    return lambda ranks: (ranks <= k).astype(np.float64)


METRICS: dict[str, Metric] = {
    "mr": rank,
    "mrr": reciprocal_rank,
    "hits@1": hits_at(1),
    "hits@3": hits_at(3),
    "hits@10": hits_at(10),
}
POLICIES = ("optimistic", "realistic", "pessimistic", "expected")


def contributions(ranks: Ranks) -> Float64s:
    """What each query contributes, (n, 4, 5): queries, POLICIES, METRICS. The mean over queries is the result."""
    values = np.empty((len(ranks), len(POLICIES), len(METRICS)))
    for column, metric in enumerate(METRICS.values()):
        for policy, of_ranks in enumerate((ranks.optimistic, ranks.realistic, ranks.pessimistic)):
            values[:, policy, column] = metric(of_ranks)
        values[:, 3, column] = _expected(metric, ranks)
    return values


def summarize(ranks: Ranks) -> Summary:
    """Every metric under every policy, as fractions.

    >>> all_equal = Ranks(greater=np.array([0]), equal=np.array([3]), candidates=np.array([4]))
    >>> for policy, metrics in summarize(all_equal).items():
    ...     print(policy, metrics["mr"], round(metrics["mrr"], 3), metrics["hits@1"], metrics["hits@3"])
    optimistic 1.0 1.0 1.0 1.0
    realistic 2.5 0.4 0.0 1.0
    pessimistic 4.0 0.25 0.0 0.0
    expected 2.5 0.521 0.25 0.75
    """
    return named(contributions(ranks).mean(axis=0))


def named(table: npt.NDArray[np.float64]) -> Summary:
    """A table (4, 5, ...) of policies and metrics as nested dictionaries of plain numbers (or lists of them)."""
    return {
        policy: {metric: table[p, m].tolist() for m, metric in enumerate(METRICS)} for p, policy in enumerate(POLICIES)
    }


def _expected(metric: Metric, ranks: Ranks) -> Float64s:
    last = int(ranks.pessimistic.max(initial=0))
    sums = np.concatenate([[0.0], np.cumsum(metric(np.arange(1.0, last + 1)))])  # F(0) to F(last)
    mean = (sums[ranks.greater + ranks.equal + 1] - sums[ranks.greater]) / (ranks.equal + 1)
    # Without ties there is one order, whose value needs no difference of sums.
    return np.where(ranks.equal == 0, metric(ranks.optimistic), mean)
