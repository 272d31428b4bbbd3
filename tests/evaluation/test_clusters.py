"""Intervals and tests over clusters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from capse.evaluation.clusters import cluster_interval, cluster_p_value
from capse.evaluation.intervals import bootstrap_interval


def test_clusters_of_one_are_values() -> None:
    values = np.random.default_rng(0).normal(0.1, 1, 400)
    alone = np.arange(400)
    assert cluster_p_value(values, alone) == pytest.approx(ttest_1samp(values, 0).pvalue, rel=1e-9)
    np.testing.assert_allclose(cluster_interval(values, alone), bootstrap_interval(values), atol=0.02)


def test_equal_values_in_a_cluster_count_as_one_observation() -> None:
    """Each of thirty values ten times over: as wide and as sure as thirty."""
    values = np.random.default_rng(1).normal(0.3, 1, 30)
    many, clusters = np.repeat(values, 10), np.repeat(np.arange(30), 10)
    assert cluster_p_value(many, clusters) == pytest.approx(ttest_1samp(values, 0).pvalue, rel=1e-9)
    np.testing.assert_allclose(cluster_interval(many, clusters), cluster_interval(values, np.arange(30)), rtol=1e-12)
    low, high = bootstrap_interval(many)
    wide = cluster_interval(many, clusters)
    assert (wide[1] - wide[0]) > 2.5 * (high - low)


def test_the_error_is_that_of_clusters_drawn_again() -> None:
    """Clusters of unequal size: the formula's error is near the spread of means over resamples."""
    draw = np.random.default_rng(2)
    clusters = np.repeat(np.arange(200), draw.integers(1, 20, 200))
    values = draw.normal(size=200)[clusters] + draw.normal(size=len(clusters))
    low, high = cluster_interval(values, clusters)
    sums = np.bincount(clusters, values - values.mean())
    error = np.sqrt(200 / 199 * (sums**2).sum()) / len(values)
    assert (high - low) / 3.92 == pytest.approx(error, rel=0.1)


def test_columns_share_their_resamples_and_the_seed_decides() -> None:
    values, clusters = np.random.default_rng(3).random((60, 3)), np.repeat(np.arange(12), 5)
    joint = cluster_interval(values, clusters)
    np.testing.assert_allclose(cluster_interval(values[:, 1], clusters), joint[:, 1])
    assert (cluster_interval(values, clusters, seed=1) != joint).any()


@pytest.mark.parametrize(
    ("values", "clusters", "p"), [([1.0, 2.0], [0, 0], 1), ([0.0, 0.0], [0, 1], 1), ([1.0, 1.0], [0, 1], 0)]
)
def test_ends(values: list[float], clusters: list[int], p: float) -> None:
    assert cluster_p_value(np.array(values), np.array(clusters)) == p
