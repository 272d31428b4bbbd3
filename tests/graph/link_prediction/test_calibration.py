"""Scores to probabilities: planted slopes, what is drawn as a corruption, damaged files."""

from __future__ import annotations

import json
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from capse import DistMult
from capse.errors import RunError, SettingsError
from capse.evaluation.ranks import NonFiniteScoreError
from capse.graph.dataset import Graph
from capse.graph.link_prediction import calibration
from capse.graph.link_prediction.calibration import (
    Calibration,
    brier_score,
    calibrate,
    expected_calibration_error,
    fit_platt,
)
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.kernels import workspace
from capse.models import build_model
from capse.runs.folder import RunFolder

ENTITIES, RELATIONS = 60, 4


class TableModel(nn.Module):
    """A score for each triple of the world, read from a table (E, R, E); it remembers what it was asked."""

    device = torch.device("cpu")
    reciprocal = False
    scorer = SimpleNamespace(floats_per_triple=1)

    def __init__(self, table):
        super().__init__()
        self.table = torch.as_tensor(table, dtype=torch.float32)
        self.asked = []

    def score_answers(self, free, heads, relations, tails):
        return self.score_triples(heads, relations, tails)

    def score_triples(self, heads, relations, tails):
        self.asked.append(torch.stack([heads, relations, tails], 1))
        return self.table[heads, relations, tails]


def table_model(table):
    return TableModel(table)


@pytest.fixture(scope="module")
def graph():
    generator = np.random.default_rng(0)
    ids = np.unique(np.stack([generator.integers(0, n, 2500) for n in (ENTITIES, RELATIONS, ENTITIES)], 1), axis=0)
    labelled = [(f"e{h:02}", f"r{r}", f"e{t:02}") for h, r, t in generator.permutation(ids).tolist()]
    return Graph.from_triples(labelled[1200:], labelled[200:1200], labelled[:200], name="planted")


def planted_scores(graph, seed=1):
    """N(1, 1) for triples of the graph and N(−1, 1) for others: the log odds of a score s are 2s."""
    table = np.random.default_rng(seed).normal(-1, 1, (ENTITIES, RELATIONS, ENTITIES))
    table[tuple(graph.split("all").T)] += 2
    return table


def test_the_planted_odds_are_recovered(graph):
    fitted = calibrate(table_model(planted_scores(graph)), graph)
    assert fitted.slope == pytest.approx(2, abs=0.25)
    assert fitted.intercept == pytest.approx(0, abs=0.25)
    assert fitted.triples == 1000
    assert fitted.expected_calibration_error < 0.03
    assert fitted.brier_score < 0.15


def test_reliability_is_measured_on_the_half_that_was_not_fitted(graph):
    """Its figures by hand, from what the model was asked: four parts of the one half, then four of the other."""
    model = table_model(planted_scores(graph))
    fitted = calibrate(model, graph)
    figures = []
    for half in (model.asked[:4], model.asked[4:]):
        scores = np.concatenate([model.table[tuple(part.T)].numpy() for part in half]).astype(np.float64)
        true = np.concatenate([np.full(len(part), place % 2 == 0) for place, part in enumerate(half)])
        p = fitted.probability(scores)
        figures.append((brier_score(p, true), expected_calibration_error(p, true)))
    assert (fitted.brier_score, fitted.expected_calibration_error) == pytest.approx(figures[1], rel=1e-9)
    for of_fitted, of_other in zip(*figures, strict=True):
        assert of_fitted != pytest.approx(of_other, rel=1e-3)  # or nothing was tested


def test_units_of_the_score_do_not_matter(graph):
    table = planted_scores(graph)
    fitted = calibrate(table_model(table), graph)
    shifted = calibrate(table_model(1000 * table - 50), graph)
    assert shifted.brier_score == pytest.approx(fitted.brier_score, rel=1e-3)
    scores = np.linspace(-3, 3, 7)
    assert shifted.probability(1000 * scores - 50) == pytest.approx(fitted.probability(scores), abs=1e-3)


def test_probabilities_rise_with_scores(graph):
    fitted = calibrate(table_model(planted_scores(graph)), graph)
    p = fitted.probability(np.linspace(-1e4, 1e4, 2001))
    assert (np.diff(p) >= 0).all()
    assert p[0] == 0
    assert p[-1] == 1
    assert (np.diff(fitted.probability(np.linspace(-5, 5, 101))) > 0).all()


def test_the_seed_decides(graph):
    model = table_model(planted_scores(graph))
    assert calibrate(model, graph, seed=3) == calibrate(model, graph, seed=3)
    assert calibrate(model, graph, seed=3) != calibrate(model, graph, seed=4)


def test_chunks_do_not_matter(graph, monkeypatch):
    model = table_model(planted_scores(graph))
    whole = calibrate(model, graph)
    monkeypatch.setattr(workspace, "CPU", 7)
    assert calibrate(model, graph) == whole


def test_triples_are_corrupted_on_one_side_and_into_no_known_triple(graph):
    model = table_model(planted_scores(graph))
    calibrate(model, graph)
    known = set(map(tuple, np.concatenate([graph.train, graph.valid]).tolist()))
    valid = set(map(tuple, graph.valid.tolist()))
    drawn: dict[int, set[int]] = {0: set(), 2: set()}
    for positives, negatives, free in zip(model.asked[::2], model.asked[1::2], [0, 2, 0, 2], strict=True):
        assert set(map(tuple, positives.tolist())) <= valid
        assert known.isdisjoint(map(tuple, negatives.tolist()))
        kept = [0, 1, 2]
        kept.remove(free)
        assert torch.equal(positives[:, kept], negatives[:, kept])
        drawn[free] |= set(negatives[:, free].tolist())
    assert drawn == {0: set(range(ENTITIES)), 2: set(range(ENTITIES))}


def test_every_possible_corruption_is_as_likely():
    graph = Graph.from_triples([("a", "r", "c"), ("a", "r", "e")], [("a", "r", "b"), ("f", "r", "d")])
    counts = np.zeros(len(graph.entities))
    for seed in range(300):
        model = table_model(np.ones((6, 1, 6)))
        with suppress(SettingsError):  # equal scores cannot be calibrated; what was drawn counts all the same
            calibrate(model, graph, seed)
        for asked in model.asked[3::4]:
            counts += np.bincount(asked[asked[:, 0] == 0][:, 2], minlength=6)
    allowed = counts[[0, 3, 5]]  # a, d and f make no known triple with (a, r)
    assert counts.sum() == allowed.sum()
    assert allowed == pytest.approx(np.full(3, allowed.mean()), rel=0.25)


def test_reciprocal_models_are_scored_the_way_they_are_asked(graph):
    model = build_model(DistMult(dim=8, reciprocal=True), ENTITIES, RELATIONS)
    h, r, t = torch.from_numpy(graph.valid.astype(np.int64)).unbind(1)
    with torch.no_grad():
        heads = model.score_heads(r, t)[torch.arange(len(h)), h].numpy()
        tails = model.score_tails(h, r)[torch.arange(len(h)), t].numpy()
    assert calibration._score(model, graph.valid, 0) == pytest.approx(heads, rel=1e-4, abs=1e-6)
    assert calibration._score(model, graph.valid, 2) == pytest.approx(tails, rel=1e-4, abs=1e-6)


def test_separable_scores_give_finite_probabilities(graph):
    table = np.zeros((ENTITIES, RELATIONS, ENTITIES))
    table[tuple(graph.split("all").T)] = 1
    fitted = calibrate(table_model(table), graph)
    low, high = fitted.probability(np.array([0.0, 1.0]))
    assert low == pytest.approx(0, abs=0.02)
    assert high == pytest.approx(1, abs=0.02)
    assert np.isfinite([fitted.slope, fitted.intercept]).all()


def test_scores_that_cannot_be_calibrated(graph):
    with pytest.raises(SettingsError, match="the same score"):
        calibrate(table_model(np.full((ENTITIES, RELATIONS, ENTITIES), 0.1)), graph)
    with pytest.raises(SettingsError, match="higher than corrupted ones"):
        calibrate(table_model(-planted_scores(graph)), graph)
    with pytest.raises(NonFiniteScoreError, match="a validation triple as nan"):
        calibrate(table_model(np.full((ENTITIES, RELATIONS, ENTITIES), np.nan)), graph)


def test_graphs_that_cannot_be_calibrated_on():
    triples = [(h, "r", t) for h in "ab" for t in "ab"]
    with pytest.raises(SettingsError, match=r"0 validation triples.*valid.tsv"):
        calibrate(table_model(np.ones((2, 1, 2))), Graph.from_triples(triples))
    with pytest.raises(SettingsError, match="every entity answers"):
        calibrate(table_model(np.ones((2, 1, 2))), Graph.from_triples(triples, triples))


def test_reliability_figures_by_their_formulas():
    generator = np.random.default_rng(0)
    p = generator.random(20_000)
    true = generator.random(20_000) < p
    assert brier_score(p, true) == pytest.approx(1 / 6, abs=0.01)  # the mean of p(1 − p)
    assert expected_calibration_error(p, true) < 0.02
    assert expected_calibration_error(np.sqrt(p), true) == pytest.approx(2 / 3 - 1 / 2, abs=0.02)
    assert expected_calibration_error(np.array([1.0]), np.array([True])) == 0


@pytest.mark.parametrize(
    ("probabilities", "true", "expected"),
    [
        ([1.0, 0.95], [False, True], (1.0 - 0.05) / 2),  # p = 1 is in the last bin, with what is just below
        ([0.95, 0.85], [True, False], (0.05 + 0.85) / 2),  # each in a bin of its own
        ([0.0, 0.05, 0.1], [True, False, False], (0.95 + 0.1) / 3),
    ],
)
def test_the_bins_of_the_calibration_error(probabilities, true, expected):
    assert expected_calibration_error(np.array(probabilities), np.array(true)) == pytest.approx(expected)


def test_scores_that_say_nothing_are_refused():
    """As many true as false among equal scores: the slope is exactly zero, which orders nothing."""
    with pytest.raises(SettingsError, match="higher than corrupted ones"):
        fit_platt(np.array([0.0, 1.0, 0.0, 1.0]), np.array([True, True, False, False]))


@pytest.mark.parametrize(("positives", "negatives"), [(2, 3), (1, 1), (40, 8)])
def test_platts_targets(positives, negatives):
    """(N₊ + 1) / (N₊ + 2) and 1 / (N₋ + 2): with one score for each class the fit goes through both."""
    true = np.arange(positives + negatives) < positives
    slope, intercept = fit_platt(np.where(true, 3.0, 1.0), true)
    low, high = 1 / (1 + np.exp(-(slope * np.array([1.0, 3.0]) + intercept)))
    assert high == pytest.approx((positives + 1) / (positives + 2), rel=1e-6)
    assert low == pytest.approx(1 / (negatives + 2), rel=1e-6)


def test_platt_agrees_with_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    generator = np.random.default_rng(0)
    scores = generator.normal(3, 5, 5000)
    true = generator.random(5000) < 1 / (1 + np.exp(1 - 0.4 * scores))
    slope, intercept = fit_platt(scores, true)
    peer = LogisticRegression(C=1e6).fit(scores[:, None], true)
    assert slope == pytest.approx(peer.coef_.item(), rel=0.01)
    assert intercept == pytest.approx(peer.intercept_.item(), rel=0.01)


def test_a_calibration_is_kept_in_the_run(graph, tmp_path):
    run = RunFolder(tmp_path)
    assert Calibration.load(run) is None
    fitted = LinkPredictor(table_model(planted_scores(graph)), graph, run).calibrate(seed=2)
    assert Calibration.load(run) == fitted
    assert list(tmp_path.iterdir()) == [run.calibration]
    assert set(json.loads(run.calibration.read_text())) == {
        "slope", "intercept", "triples", "seed", "brier_score", "expected_calibration_error",
    }  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[1, 2]",
        lambda text: "null",
        lambda text: "\udcff",
        lambda text: text.replace("slope", "slop"),
        lambda text: text.replace('"slope": ', '"slope": -'),
        lambda text: text.replace('"slope": 2.0', '"slope": NaN'),
        lambda text: text.replace('"slope": 2.0', '"slope": null'),
        lambda text: text.replace('"slope": 2.0,', ""),
    ],
)
def test_a_damaged_calibration_is_a_run_error(tmp_path, change):
    run = RunFolder(tmp_path)
    Calibration(2.0, 1.0, triples=8, seed=0, brier_score=0.1, expected_calibration_error=0.1).save(run)
    run.calibration.write_text(change(run.calibration.read_text()), errors="surrogateescape")
    with pytest.raises(
        RunError, match=r"calibration.json is damaged: fit it again with 'capse predict .* --calibrate'"
    ):
        Calibration.load(run)
