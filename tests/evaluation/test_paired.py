"""Paired comparisons."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_rel

from capse.evaluation.paired import compare


def test_agrees_with_scipy():
    generator = np.random.default_rng(0)
    first = generator.random(300)
    second = first + generator.normal(0.01, 0.1, 300)
    result = compare(first, second)
    assert result.difference == pytest.approx((first - second).mean())
    assert result.p_value == pytest.approx(ttest_rel(first, second).pvalue, rel=1e-9)
    assert result.low < result.difference < result.high


def test_no_difference_at_all():
    values = np.random.default_rng(1).random(10)
    result = compare(values, values)
    assert (result.difference, result.low, result.high, result.p_value) == (0, 0, 0, 1)


def test_the_same_difference_everywhere():
    assert compare(np.full(10, 0.75), np.full(10, 0.5)).p_value == 0


@pytest.mark.parametrize(("first", "second"), [(3, 4), (1, 1)])
def test_unpaired(first, second):
    with pytest.raises(ValueError, match="cannot be paired"):
        compare(np.zeros(first), np.zeros(second))


def test_two_triples_are_enough():
    first, second = np.array([0.5, 0.7]), np.array([0.4, 0.5])
    assert compare(first, second).p_value == pytest.approx(ttest_rel(first, second).pvalue)
