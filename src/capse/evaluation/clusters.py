"""Intervals and tests where values come in clusters, such as lists of one user, which are not independent.

Clusters are drawn, not values: a cluster of many counts as one observation of a large part of the mean. The test is the
t-test whose variance is that of the clusters' sums of residuals (Liang and Zeger, Biometrika 1986),
G/(G − 1) Σ_g e_g² / n² with e_g = Σ_{i in g} (d_i − d̄), with G − 1 degrees of freedom.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import stdtr

from capse.arrays import Float64s, Int64s
from capse.evaluation.intervals import LEVEL, RESAMPLES


def cluster_interval(values: Float64s, clusters: Int64s, *, seed: int = 0, weights: Float64s | None = None) -> Float64s:
    """The 95 % percentile interval of the mean: (n, ...) values with the cluster of each -> (2, ...), low and high.

    With ``weights`` (n,) it is that of the weighted mean.

    >>> values, everyone_alone, all_one = np.arange(100.0), np.arange(100), np.zeros(100, int)
    >>> cluster_interval(values, everyone_alone).round(), cluster_interval(values, all_one)
    (array([44., 55.]), array([49.5, 49.5]))
    """
    return _middle(_drawn_means(values, clusters, seed, weights)).reshape(2, *values.shape[1:])


def cluster_difference(
    first: Float64s, clusters: Int64s, second: Float64s, others: Int64s, *, seed: int = 0
) -> tuple[Float64s, float]:
    """Mean of the second minus mean of the first, (n,) and (m,) values of clusters that have nothing to do with each
    other: the 95 % interval, and the p-value of a two-sided test with the variances of both.

    >>> values, users = np.tile([0.0, 1.0], 200), np.repeat(np.arange(100), 4)
    >>> (low, high), p_value = cluster_difference(values, users, values + 0.5, users)
    >>> bool(0.49 < low <= 0.5 <= high < 0.51), p_value
    (True, 0.0)
    """
    draws = _drawn_means(second, others, seed, None) - _drawn_means(first, clusters, seed + 1, None)
    difference = float(second.mean() - first.mean())
    parts = [_error(values, of) for values, of in ((first, clusters), (second, others))]
    counts = [_numbered(of)[1] for of in (clusters, others)]
    if min(counts) < 2:
        return _middle(draws)[:, 0], 1.0
    error = math.hypot(*parts)
    if error < 1e-12 * abs(difference):
        return _middle(draws)[:, 0], 0.0
    p_value = float(2 * stdtr(min(counts) - 1, -abs(difference) / error)) if error else 1.0
    return _middle(draws)[:, 0], p_value


def _error(values: Float64s, clusters: Int64s) -> float:
    """The standard error of a mean, by clusters; 0 where there is one."""
    number, count = _numbered(clusters)
    residuals = np.bincount(number, values - values.mean(), count)
    return math.sqrt(count / max(count - 1, 1) * float(residuals @ residuals)) / len(values)


def _middle(means: Float64s) -> Float64s:
    tail = (1 - LEVEL) / 2
    return np.quantile(means, [tail, 1 - tail], axis=0)


def _drawn_means(values: Float64s, clusters: Int64s, seed: int, weights: Float64s | None) -> Float64s:
    """(RESAMPLES, columns) of the values if other clusters had come."""
    columns = values.reshape(len(values), -1)
    number, count = _numbered(clusters)
    sizes = np.bincount(number, weights, count).astype(np.float64)
    weighted = columns if weights is None else columns * weights[:, None]
    sums = np.stack([np.bincount(number, column, count) for column in weighted.T], axis=1)
    generator = np.random.default_rng(seed)
    means = []
    for _ in range(RESAMPLES):
        drawn = np.bincount(generator.integers(count, size=count), minlength=count)
        means.append(drawn @ sums / (drawn @ sizes))
    return np.array(means)


def cluster_p_value(differences: Float64s, clusters: Int64s, weights: Float64s | None = None) -> float:
    """Two-sided test of 'the mean difference is zero'; 1 where there is one cluster, which can tell nothing.

    With ``weights`` (n,) it is the weighted mean, linearised: e_g = Σ w_i (d_i − d̄) over Σ w_i instead of n.

    >>> cluster_p_value(np.array([1.0, 1.0, 1.0, 0.0]), np.array([0, 0, 0, 1])).__round__(2)
    0.3
    """
    number, count = _numbered(clusters)
    given = np.ones(len(differences)) if weights is None else weights
    mean = float(np.average(differences, weights=weights))
    if count < 2:
        return 1.0
    residuals = np.bincount(number, given * (differences - mean), count)
    error = math.sqrt(count / (count - 1) * float(residuals @ residuals)) / float(given.sum())
    if error < 1e-12 * abs(mean):
        return 0.0
    return float(2 * stdtr(count - 1, -abs(mean) / error)) if error else 1.0


def _numbered(clusters: Int64s) -> tuple[Int64s, int]:
    distinct, number = np.unique(clusters, return_inverse=True)
    return number, len(distinct)
