"""Metrics adjusted for chance: by definition, by simulation, and as PyKEEN has them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capse.evaluation.adjusted import adjusted, macro_average
from capse.evaluation.breakdowns import break_down
from capse.evaluation.metrics import contributions
from capse.evaluation.ranks import Ranks


def ranks_of(rows):
    greater, equal, candidates = np.array(rows, np.int64).T
    return Ranks(greater, equal, candidates)


RANKS = st.lists(
    st.integers(2, 30).flatmap(
        lambda n: st.integers(0, n - 1).flatmap(lambda g: st.tuples(st.just(g), st.integers(0, n - 1 - g), st.just(n)))
    ),
    min_size=1,
    max_size=20,
)


@given(RANKS)
def test_the_definition(rows):
    ranks = ranks_of(rows)
    for policy, values in (("optimistic", ranks.optimistic), ("realistic", ranks.realistic)):
        n = ranks.candidates
        chance = np.mean([sum(1 / k for k in range(1, size + 1)) / size for size in n])
        found = adjusted(ranks)[policy]
        assert found["amri"] == pytest.approx(1 - (values - 1).sum() / ((n + 1) / 2 - 1).sum())
        assert found["adjusted_mrr"] == pytest.approx(((1 / values).mean() - chance) / (1 - chance))


def test_chance_is_zero_and_perfection_one():
    rng = np.random.default_rng(0)
    n = rng.integers(5, 400, 200_000)
    by_chance = adjusted(Ranks((rng.random(len(n)) * n).astype(np.int64), np.zeros_like(n), n))["realistic"]
    assert by_chance["amri"] == pytest.approx(0, abs=0.005)
    assert by_chance["adjusted_mrr"] == pytest.approx(0, abs=0.005)
    perfect = adjusted(ranks_of([(0, 0, 7), (0, 0, 90)]))["pessimistic"]
    assert perfect == {"amri": 1.0, "adjusted_mrr": 1.0}
    tied = adjusted(ranks_of([(0, 6, 7)]))
    assert tied["realistic"]["amri"] == 0
    assert tied["expected"]["adjusted_mrr"] == pytest.approx(0)
    assert adjusted(ranks_of([(0, 0, 1)]))["realistic"] == {"amri": 0.0, "adjusted_mrr": 0.0}


def test_pykeen_says_the_same():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metrics = pytest.importorskip("pykeen.metrics.ranking")
    rng = np.random.default_rng(1)
    n = rng.integers(10, 100, 500)
    greater = (rng.random(500) * n).astype(np.int64)
    found = adjusted(Ranks(greater, np.zeros_like(n), n))["realistic"]
    theirs = [
        metric()(ranks=greater + 1.0, num_candidates=n)
        for metric in (metrics.AdjustedArithmeticMeanRankIndex, metrics.AdjustedInverseHarmonicMeanRank)
    ]
    assert [found["amri"], found["adjusted_mrr"]] == pytest.approx(theirs)


def test_every_relation_counts_the_same():
    values = contributions(ranks_of([(0, 0, 9), (0, 0, 9), (0, 0, 9), (4, 0, 9)]))
    groups = break_down({"both": values}, np.array([0, 0, 0, 1]), ["often", "seldom"], unit="triples")
    assert macro_average(groups, ("both",))["both"]["realistic"]["mr"] == 3.0
