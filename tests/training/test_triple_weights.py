"""Weights of training triples: every loss and every kind of negatives against NumPy, and what a weight of 0 means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from capse.errors import SettingsError
from capse.training.losses import LOSSES, Answered, AnswersLoss, Loss, SampledLoss, build_loss
from capse.training.negatives import Negatives
from capse.training.objectives import build_objective
from capse.training.optimizers import Optimizer
from capse.training.regularizers import Regularizer
from capse.training.sparse_updates import row_step
from capse.training.triple_weights import TripleWeights, of_terms
from tests.training.test_losses import FORMULAS

B, N, E = 5, 3, 7
RNG = np.random.default_rng(1)
POSITIVE, NEGATIVE = RNG.normal(0, 2, B), RNG.normal(0, 2, (B, N))
SCORES, LABELS = RNG.normal(0, 2, (B, E)), np.r_["1", np.ones((B, 1)), RNG.integers(0, 2, (B, E - 1))].astype(float)
WEIGHTS = np.array([0.0, 0.5, 1.0, 2.0, 1.5])

SAMPLED = [name for name, loss in LOSSES.items() if issubclass(loss, SampledLoss)]
OF_ANSWERS = [name for name, loss in LOSSES.items() if issubclass(loss, AnswersLoss)]


def settings_of(name, **values):
    return Loss.settings_of(name)(name=name, **values)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("name", SAMPLED)
def test_a_term_weighs_what_its_true_triple_weighs(name, reduction):
    """Σ_i w_i (the terms of triple i alone), as the paper's formula gives them one triple at a time."""
    settings = settings_of(name, reduction=reduction, margin=1.5)
    alone = [FORMULAS[name](settings, POSITIVE[i : i + 1], NEGATIVE[i : i + 1]) for i in range(B)]
    expected = sum(w * sum(terms) for w, terms in zip(WEIGHTS, alone, strict=True))
    if reduction == "mean":
        expected /= sum(map(len, alone))
    loss: Any = build_loss(settings)
    terms = loss.of_sampled(torch.from_numpy(POSITIVE), torch.from_numpy(NEGATIVE))
    assert float(loss.reduce(terms, torch.from_numpy(WEIGHTS))) == pytest.approx(expected, rel=1e-12)


def answered(labels, weights=None):
    rows, entities = (torch.from_numpy(x) for x in np.nonzero(labels))
    given = None if weights is None else torch.from_numpy(weights[labels > 0])
    return Answered(rows, entities, torch.from_numpy(labels.sum(1)).long(), given)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_answers_share_a_question_by_their_weights(smoothing):
    each = RNG.uniform(0, 2, (B, E))
    chances = np.exp(SCORES) / np.exp(SCORES).sum(1, keepdims=True)
    expected = []
    for scores, labels, w in zip(np.log(chances), LABELS, each, strict=True):
        of_answers = sum(w[e] * scores[e] for e in range(E) if labels[e]) / labels.sum()
        mean = sum(w[e] for e in range(E) if labels[e]) / labels.sum()
        expected.append(-(1 - smoothing) * of_answers - smoothing * mean * scores.mean())
    loss: Any = build_loss(Loss(name="kl", smoothing=smoothing))
    found = loss.of_answers(torch.from_numpy(SCORES), answered(LABELS, each))
    assert found.numpy() == pytest.approx(np.array(expected), rel=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy_of_each_entity_weighs_an_answer_by_its_own_weight(smoothing):
    each = RNG.uniform(0, 2, (B, E))
    target = (1 - smoothing) * LABELS + smoothing / E
    chance = 1 / (1 + np.exp(-SCORES))
    terms = -(target * np.log(chance) + (1 - target) * np.log(1 - chance))
    mean = (each * LABELS).sum(1) / LABELS.sum(1)
    expected = (terms * np.where(LABELS > 0, each, mean[:, None])).mean(1)
    loss: Any = build_loss(Loss(name="bce", smoothing=smoothing))
    found = loss.of_answers(torch.from_numpy(SCORES), answered(LABELS, each))
    assert found.numpy() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", OF_ANSWERS)
def test_answers_that_all_weigh_one_are_as_without_weights(name):
    loss: Any = build_loss(Loss(name=name, smoothing=0.1))
    with_ones, without = (
        loss.of_answers(torch.from_numpy(SCORES), answered(LABELS, w)) for w in (np.ones((B, E)), None)
    )
    assert torch.allclose(with_ones, without, rtol=1e-12)


def test_a_loss_whose_terms_cannot_be_told_apart_is_refused():
    with pytest.raises(SettingsError, match="which triple each of its terms is about"):
        of_terms(torch.ones(4), torch.ones(6))


KINDS = [
    (Loss(name="softplus"), {"sampler": "bernoulli", "count": 2}),
    (Loss(name="margin", margin=2.0), {"sampler": "uniform", "count": 3}),
    (Loss(name="squared_softplus", reduction="mean"), {"sampler": "shared", "count": 4}),
    (Loss(name="softmax"), {"sampler": "shared", "count": 4}),
    (Loss(name="softmax", reduction="mean"), {"sampler": "all"}),
    (Loss(name="softmax", relation_weight=0.5), {"sampler": "all"}),
    (Loss(name="bce", smoothing=0.1), {"sampler": "all"}),
    (Loss(name="kl", smoothing=0.1), {"sampler": "all"}),
]


def build(model, triples, loss, negatives, weights=None):
    return build_objective(model, triples, loss, Negatives(**negatives), Regularizer(), weights)


def value(objective, batch, seed=0):
    return objective(batch, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize(("loss", "negatives"), KINDS)
def test_weights_matter_by_their_ratio_alone(make_model, triples, loss, negatives, reciprocal):
    model = make_model(reciprocal=reciprocal)
    plain = build(model, triples, loss, negatives)
    for weight in (1.0, 0.25):
        weighted = build(model, triples, loss, negatives, np.full(len(triples), weight, np.float32))
        expected, found = (float(value(x, x.examples[:]).detach()) for x in (plain, weighted))
        assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize(("loss", "negatives"), KINDS)
def test_the_loss_is_linear_in_each_weight(make_model, triples, loss, negatives, reciprocal):
    """L(w) = Σ w_i L_i / n over the same draws: the weighted loss of all is that of triples taken one by one."""
    model = make_model(reciprocal=reciprocal)
    weights = np.random.default_rng(5).uniform(0, 2, len(triples)).astype(np.float32)
    weights *= len(weights) / weights.sum()  # as they are scaled
    found = build(model, triples, loss, negatives, weights)
    total = float(value(found, found.examples[:]).detach())
    parts = 0.0
    for i, weight in enumerate(weights):
        alone = np.zeros(len(weights), np.float32)
        alone[i] = 1
        one = build(model, triples, loss, negatives, alone)  # scaled to a mean of 1: n for this one
        parts += float(weight) * float(value(one, one.examples[:]).detach()) / len(weights)
    assert total == pytest.approx(parts, rel=1e-4)


@pytest.mark.parametrize(("loss", "negatives"), [kind for kind in KINDS if kind[0].name not in OF_ANSWERS])
def test_a_triple_that_weighs_nothing_costs_nothing(make_model, triples, loss, negatives):
    triples = np.concatenate([triples[(triples[:, [0, 2]] != 11).all(axis=1)], [[11, 0, 0]]])
    weights = np.append(np.ones(len(triples) - 1, np.float32), np.float32(0))
    model = make_model(reciprocal=False)
    objective = build(model, triples, loss, negatives, weights)
    assert objective.weights is not None
    assert float(objective.weights.of(torch.tensor([[11, 0, 0]]))) == 0
    rows = torch.from_numpy(triples[-1:]).long()
    assert float(value(objective, rows).detach()) == 0


def test_weights_are_looked_up_by_the_triple(triples):
    weights = np.arange(len(triples), dtype=np.float32)
    order = np.random.default_rng(0).permutation(len(triples))
    found = TripleWeights(triples[order], weights[order], 12, 3, torch.device("cpu"))
    expected = weights / weights.mean()
    assert found.of(torch.from_numpy(triples).long()).numpy() == pytest.approx(expected)


def test_only_zeros_are_refused(triples):
    with pytest.raises(SettingsError, match="weighs more than 0"):
        TripleWeights(triples, np.zeros(len(triples), np.float32), 12, 3, torch.device("cpu"))


def test_the_fused_step_of_transe_knows_no_weights_and_is_not_taken(make_model, triples):
    for weights, taken in ((None, True), (np.ones(len(triples), np.float32), False)):
        margin = build(make_model("transe"), triples, Loss(name="margin"), {"sampler": "uniform"}, weights)
        sgd = torch.optim.SGD(margin.parameters(), 0.1)
        step = row_step(margin, Optimizer(name="sgd"), sgd, batch_size=4, most_steps=9)
        assert (step is not None) == taken
