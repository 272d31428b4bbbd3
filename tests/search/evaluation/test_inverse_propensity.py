"""IPS and SNIPS beside the formulas, and beside the truth that a biased log hides."""

from __future__ import annotations

import numpy as np
import pytest

from capse.evaluation.clusters import cluster_interval, cluster_p_value
from capse.search.bias.settings import PositionBias
from capse.search.evaluation.evaluate import evaluate
from capse.search.evaluation.inverse_propensity import WeightedClicks
from capse.search.logs.simulation import SimulationSettings, simulate
from capse.search.rankers.baselines import SE

SCORES = np.array([3.0, 2.0, 1.0, 5.0, 4.0])
CLICKS = WeightedClicks(
    relevant=np.array([True, False, True, False, True]),
    lengths=np.array([3, 2]),
    weights=np.array([1.0, 9.0, 4.0, 9.0, 2.0]),
    owners=np.array([0, 1]),
)


def test_the_figures_are_their_formulas():
    found = CLICKS.figures(SCORES)
    sums = 1.0 * 1 + 4.0 * (1 / 3), 2.0 * (1 / 2)
    assert found["ips"]["mrr"] == pytest.approx(sum(sums) / 2)
    assert found["snips"]["mrr"] == pytest.approx(sum(sums) / 7)
    assert found["snips"]["hits@1"] == pytest.approx(1 / 7)
    assert found["snips"]["ndcg@10"] == pytest.approx((1 + 4 / 2 + 2 / np.log2(3)) / 7)


def test_a_gain_is_the_difference_of_two_figures():
    other = -SCORES
    gain = CLICKS.gain(SCORES, other)
    assert gain.difference == pytest.approx(CLICKS.snips_mrr(SCORES) - CLICKS.snips_mrr(other))
    assert gain.low <= gain.difference <= gain.high


def test_whole_weights_are_copies():
    """A weight of three is the same observation three times."""
    draw = np.random.default_rng(0)
    values, clusters, weights = draw.random(30), draw.integers(0, 6, 30), draw.integers(1, 4, 30)
    copies = np.repeat(np.arange(30), weights)
    weighted = cluster_interval(values, clusters, weights=weights.astype(float))
    np.testing.assert_allclose(weighted, cluster_interval(values[copies], clusters[copies]))
    assert cluster_p_value(values - 0.5, clusters, weights.astype(float)) == pytest.approx(
        cluster_p_value(values[copies] - 0.5, clusters[copies])
    )


def test_snips_comes_nearer_to_the_truth_than_clicks_do():
    """The engine's own order looks better than it is, since people click what it shows first."""
    simulated = simulate(SimulationSettings(users=100, impressions=8_000, position_bias=1.0))
    log, test = simulated.log, simulated.log.of_split("test")
    rows = log.rows(test)
    truth = float((1 / log.position[rows])[simulated.wanted[rows]].mean())  # every wanted result by its rank
    found = evaluate(SE(), log, bias=PositionBias("position", clip=20.0))
    assert found.unbiased is not None
    naive, corrected = found.per_click["mrr"], found.unbiased["snips"]["mrr"]
    assert naive - truth > 0.15
    assert abs(corrected - truth) < 0.05
    assert evaluate(SE(), log).unbiased is None
