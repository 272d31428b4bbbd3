"""Bootstrap intervals."""

from __future__ import annotations

import numpy as np

from capse.evaluation import intervals
from capse.evaluation.intervals import bootstrap_interval


def test_close_to_the_normal_interval():
    values = np.random.default_rng(0).normal(5, 2, 4000)
    low, high = bootstrap_interval(values)
    half = 1.96 * values.std() / np.sqrt(len(values))
    np.testing.assert_allclose([low, high], [values.mean() - half, values.mean() + half], atol=0.1 * half)


def test_the_seed_decides():
    values = np.random.default_rng(1).random((50, 2))
    np.testing.assert_array_equal(bootstrap_interval(values, seed=3), bootstrap_interval(values, seed=3))
    assert (bootstrap_interval(values, seed=3) != bootstrap_interval(values, seed=4)).any()


def test_columns_share_their_resamples():
    values = np.random.default_rng(2).random((40, 4, 5))
    joint = bootstrap_interval(values)
    assert joint.shape == (2, 4, 5)
    np.testing.assert_allclose(bootstrap_interval(values[:, 1, 2]), joint[:, 1, 2], rtol=1e-12)


def test_blocks_change_nothing(monkeypatch):
    values = np.random.default_rng(3).random(70)
    whole = bootstrap_interval(values)
    monkeypatch.setattr(intervals, "_BLOCK", 300)
    np.testing.assert_allclose(bootstrap_interval(values), whole, rtol=1e-12)


def test_one_value_is_certain():
    assert bootstrap_interval(np.array([0.25])).tolist() == [0.25, 0.25]
