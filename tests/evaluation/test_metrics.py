"""The five metrics under the four policies."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capse.evaluation.metrics import METRICS, POLICIES, contributions, summarize
from capse.evaluation.ranks import Ranks


def ranks_of(greater, equal):
    greater, equal = np.array(greater, np.int64), np.array(equal, np.int64)
    return Ranks(greater, equal, greater + equal + 1)


STANDINGS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=20)


@given(STANDINGS)
def test_expected_is_the_mean_over_all_orders_of_the_ties(standings):
    greater, equal = zip(*standings, strict=True)
    ours = contributions(ranks_of(greater, equal))[:, POLICIES.index("expected")]
    for i, (g, e) in enumerate(standings):
        possible = np.arange(g + 1, g + e + 2, dtype=float)  # one order of the ties in e + 1 has each
        brute_force = [metric(possible).mean() for metric in METRICS.values()]
        np.testing.assert_allclose(ours[i], brute_force, rtol=1e-12)


@given(STANDINGS)
def test_expected_closed_forms(standings):
    """mr is the realistic rank, mrr (H(g+e+1) − H(g)) / (e+1), hits@k clip(k−g, 0, e+1) / (e+1)."""
    g, e = np.array(standings).T
    expected = contributions(ranks_of(g, e))[:, POLICIES.index("expected")]
    harmonic = np.cumsum([0.0, *(1 / np.arange(1, 70))])
    np.testing.assert_array_equal(expected[:, 0], ranks_of(g, e).realistic)
    np.testing.assert_allclose(expected[:, 1], (harmonic[g + e + 1] - harmonic[g]) / (e + 1), rtol=1e-12)
    for column, k in ((2, 1), (3, 3), (4, 10)):
        np.testing.assert_allclose(expected[:, column], np.clip(k - g, 0, e + 1) / (e + 1), rtol=1e-12)


@given(STANDINGS)
def test_the_policies_are_in_order(standings):
    summary = summarize(ranks_of(*zip(*standings, strict=True)))
    for metric in METRICS:
        low, high = sorted([summary["optimistic"][metric], summary["pessimistic"][metric]])
        for policy in ("realistic", "expected"):
            assert low - 1e-12 <= summary[policy][metric] <= high + 1e-12


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=5))
def test_without_ties_all_policies_agree_exactly(greater):
    values = contributions(ranks_of(greater, [0] * len(greater)))
    assert (values == values[:, :1]).all()


def test_by_hand():
    summary = summarize(ranks_of([0, 2], [1, 0]))  # ranks 1 or 2, and 3
    assert summary["optimistic"] == {
        "mr": 2.0,
        "mrr": pytest.approx((1 + 1 / 3) / 2),
        "hits@1": 0.5,
        "hits@3": 1.0,
        "hits@10": 1.0,
    }
    assert summary["realistic"]["mrr"] == pytest.approx((1 / 1.5 + 1 / 3) / 2)
    assert summary["realistic"]["hits@1"] == 0.0
    assert summary["expected"]["hits@1"] == 0.25
    assert summary["pessimistic"]["mr"] == 2.5


def test_a_constant_scorer_over_a_million_candidates():
    summary = summarize(ranks_of([0], [10**6 - 1]))
    assert summary["expected"]["mrr"] == pytest.approx((math.log(10**6) + np.euler_gamma + 5e-7) / 10**6, rel=1e-9)
    assert summary["expected"]["mr"] == summary["realistic"]["mr"] == 500_000.5


def test_the_keys_that_scripts_read():
    summary = summarize(ranks_of([3], [1]))
    assert list(summary) == ["optimistic", "realistic", "pessimistic", "expected"]
    assert all(list(metrics) == ["mr", "mrr", "hits@1", "hits@3", "hits@10"] for metrics in summary.values())
    assert all(type(value) is float for metrics in summary.values() for value in metrics.values())
