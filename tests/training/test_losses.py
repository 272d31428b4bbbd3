"""Every loss against its formula, written in NumPy from the papers."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

import numpy as np
import pytest
import torch

from capse.errors import SettingsError
from capse.training.losses import LOSSES, Answered, AnswersLoss, Loss, SampledLoss, build_loss, names_of

B, N, E = 5, 3, 7
RNG = np.random.default_rng(0)
POSITIVE, NEGATIVE = RNG.normal(0, 2, B), RNG.normal(0, 2, (B, N))
SCORES, ANSWERS, LABELS = RNG.normal(0, 2, (B, E)), RNG.integers(E, size=B), RNG.integers(0, 2, (B, E)).astype(float)


def logistic(x):
    return np.log(1 + np.exp(x))


# The terms that a paper's sum runs over, for losses of sampled negatives: a formula gets the settings, the true scores
# (B,) and the corrupted ones (B, n). Losses of other packages bring theirs along, as entry points of this group.
FORMULAS: dict[str, Any] = {entry.name: entry.load() for entry in entry_points(group="capse.loss_formulas")}


def formula(name):
    def register(function):
        FORMULAS[name] = function
        return function

    return register


@formula("softplus")
def softplus(settings, positive, negative):
    return [logistic(-f) for f in positive] + [logistic(f) for f in negative.ravel()]


@formula("squared_softplus")
def squared_softplus(settings, positive, negative):
    return [logistic(-f) ** 2 for f in positive] + [logistic(f) ** 2 for f in negative.ravel()]


@formula("margin")
def margin(settings, positive, negative):
    return [max(0.0, settings.margin - f + g) for f, row in zip(positive, negative, strict=True) for g in row]


@formula("softmax")
def softmax(settings, positive, negative):
    pairs = zip(positive, negative, strict=True)
    return [-np.log(np.exp(f) / (np.exp(f) + np.exp(row).sum())) for f, row in pairs]


OF_SAMPLED = [name for name, loss in LOSSES.items() if issubclass(loss, SampledLoss)]


def test_every_loss_of_sampled_negatives_has_a_formula():
    assert sorted(FORMULAS) == sorted(OF_SAMPLED)


def loss_settings(name, **values):
    return Loss.settings_of(name)(name=name, **values)


def sampled_loss(settings, positive, negative):
    loss: Any = build_loss(settings)
    return loss.reduce(loss.of_sampled(positive, negative))


def answers_loss(settings, scores, labels):
    loss: Any = build_loss(settings)
    labels = torch.as_tensor(labels)
    rows, entities = labels.nonzero(as_tuple=True)
    return loss.reduce(loss.of_answers(scores, Answered(rows, entities, labels.sum(1))))


def tensors(*arrays):
    return [torch.from_numpy(array) for array in arrays]


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("name", OF_SAMPLED)
def test_corruption_losses(name, reduction):
    settings = loss_settings(name, reduction=reduction, margin=1.5)
    expected = getattr(np, reduction)(FORMULAS[name](settings, POSITIVE, NEGATIVE))
    found = sampled_loss(settings, *tensors(POSITIVE, NEGATIVE))
    assert float(found) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", OF_SAMPLED)
def test_better_scores_for_true_triples_lower_every_loss(name):
    """Higher scores mean more plausible, also for the losses of programs that think otherwise."""
    settings = loss_settings(name, margin=20)
    positive, negative = (x.clone().requires_grad_() for x in tensors(POSITIVE, NEGATIVE))
    sampled_loss(settings, positive, negative).backward()
    assert (positive.grad < 0).all()
    assert (negative.grad > 0).all()


@pytest.mark.parametrize("name", OF_SAMPLED)
def test_a_masked_score_neither_costs_nor_pulls(name):
    settings = loss_settings(name, margin=20)
    positive, negative = (x.clone().requires_grad_() for x in tensors(POSITIVE, NEGATIVE))
    mask = torch.zeros(B, N, dtype=torch.bool)
    mask[:, 1] = True
    loss = sampled_loss(settings, positive, negative.masked_fill(mask, -torch.inf))
    loss.backward()
    assert float(loss.detach()) == pytest.approx(float(sampled_loss(settings, *tensors(POSITIVE, NEGATIVE[:, [0, 2]]))))
    assert torch.isfinite(negative.grad).all()
    assert (negative.grad[:, 1] == 0).all()


@pytest.mark.parametrize("name", OF_SAMPLED)
def test_extreme_scores_give_finite_losses(name):
    settings = loss_settings(name)
    loss = sampled_loss(settings, torch.tensor([-1e4, 1e4]), torch.tensor([[1e4], [-1e4]]))
    assert torch.isfinite(loss)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_softmax_over_all(reduction):
    expected = [-np.log(np.exp(SCORES[b, ANSWERS[b]]) / np.exp(SCORES[b]).sum()) for b in range(B)]
    loss: Any = build_loss(Loss(name="softmax", reduction=reduction))
    found = loss.reduce(loss.of_entities(*tensors(SCORES, ANSWERS)))
    assert float(found) == pytest.approx(getattr(np, reduction)(expected), rel=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_binary_cross_entropy_with_smoothed_labels(reduction, smoothing):
    """Targets (1 − s) y + s/E, averaged over the entities; Dettmers et al.'s program adds 1/E, whatever s is."""
    chance = 1 / (1 + np.exp(-SCORES))
    target = (1 - smoothing) * LABELS + smoothing / E
    expected = -(target * np.log(chance) + (1 - target) * np.log(1 - chance)).mean(1)
    settings = Loss(name="bce", reduction=reduction, smoothing=smoothing)
    found = answers_loss(settings, *tensors(SCORES, LABELS))
    assert float(found) == pytest.approx(getattr(np, reduction)(expected), rel=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_cross_entropy_of_the_spread_over_all_answers(reduction, smoothing):
    """Every answer of a row is aimed at alike, and with smoothing every entity a little."""
    labels = LABELS.copy()
    labels[:, 0] = 1  # no question without an answer
    share = np.exp(SCORES) / np.exp(SCORES).sum(1, keepdims=True)
    target = (1 - smoothing) * labels / labels.sum(1, keepdims=True) + smoothing / E
    expected = -(target * np.log(share)).sum(1)
    settings = Loss(name="kl", reduction=reduction, smoothing=smoothing)
    found = answers_loss(settings, *tensors(SCORES, labels))
    assert float(found) == pytest.approx(getattr(np, reduction)(expected), rel=1e-12)


def test_thousands_of_answers_are_added_up_in_more_than_bfloat16():
    scores = torch.linspace(20, 30, 4000)[None]
    everyone = torch.ones(1, 4000)
    exact, rough = (answers_loss(Loss(name="kl"), x, everyone) for x in (scores, scores.bfloat16()))
    assert rough.dtype == torch.float32
    assert float(rough) == pytest.approx(float(exact), rel=2e-3)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, 2])
def test_senseless_smoothing(smoothing):
    with pytest.raises(SettingsError, match=r"loss\.smoothing is"):
        Loss(smoothing=smoothing)


def test_which_losses_take_which_negatives():
    assert {"softplus", "squared_softplus", "margin", "softmax"} <= set(names_of(SampledLoss).split(", "))
    assert not {"bce", "kl"} & set(names_of(SampledLoss).split(", "))
    assert {"bce", "kl"} <= set(names_of(AnswersLoss).split(", "))


def test_an_unknown_loss_is_an_error_that_lists_all():
    with pytest.raises(SettingsError, match=r"loss\.name is 'hinge': choose from .*softplus, .*, bce, kl"):
        Loss(name="hinge")
