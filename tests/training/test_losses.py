"""Every loss against its formula, written in NumPy from the papers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from capse.errors import SettingsError
from capse.training.losses import OF_ANSWERS, LossSettings, binary_loss, corruption_loss, softmax_loss, spread_loss

B, N, E = 5, 3, 7
RNG = np.random.default_rng(0)
POSITIVE, NEGATIVE = RNG.normal(0, 2, B), RNG.normal(0, 2, (B, N))
SCORES, ANSWERS, LABELS = RNG.normal(0, 2, (B, E)), RNG.integers(E, size=B), RNG.integers(0, 2, (B, E)).astype(float)


def logistic(x):
    return np.log(1 + np.exp(x))


def terms(name, margin=1.0):
    """The terms that the paper's sum runs over."""
    if name == "margin":
        return [max(0.0, margin - POSITIVE[b] + NEGATIVE[b, n]) for b in range(B) for n in range(N)]
    if name == "softmax":
        return [-np.log(np.exp(POSITIVE[b]) / (np.exp(POSITIVE[b]) + np.exp(NEGATIVE[b]).sum())) for b in range(B)]
    power = 2 if name == "squared_softplus" else 1
    return [logistic(-f) ** power for f in POSITIVE] + [logistic(f) ** power for f in NEGATIVE.ravel()]


def tensors(*arrays):
    return [torch.from_numpy(array) for array in arrays]


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("name", ["softplus", "squared_softplus", "margin", "softmax"])
def test_corruption_losses(name, reduction):
    settings = LossSettings(name=name, reduction=reduction, margin=1.5)
    expected = getattr(np, reduction)(terms(name, margin=1.5))
    found = corruption_loss(settings, *tensors(POSITIVE, NEGATIVE))
    assert float(found) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["softplus", "squared_softplus", "margin", "softmax"])
def test_better_scores_for_true_triples_lower_every_loss(name):
    """Higher scores mean more plausible, also for the losses of programs that think otherwise."""
    settings = LossSettings(name=name, margin=20)
    positive, negative = (x.clone().requires_grad_() for x in tensors(POSITIVE, NEGATIVE))
    corruption_loss(settings, positive, negative).backward()
    assert (positive.grad < 0).all()
    assert (negative.grad > 0).all()


@pytest.mark.parametrize("name", ["softplus", "squared_softplus", "margin", "softmax"])
def test_a_masked_score_neither_costs_nor_pulls(name):
    settings = LossSettings(name=name, margin=20)
    positive, negative = (x.clone().requires_grad_() for x in tensors(POSITIVE, NEGATIVE))
    mask = torch.zeros(B, N, dtype=torch.bool)
    mask[:, 1] = True
    loss = corruption_loss(settings, positive, negative.masked_fill(mask, -torch.inf))
    loss.backward()
    assert float(loss.detach()) == pytest.approx(
        float(corruption_loss(settings, *tensors(POSITIVE, NEGATIVE[:, [0, 2]])))
    )
    assert torch.isfinite(negative.grad).all()
    assert (negative.grad[:, 1] == 0).all()


@pytest.mark.parametrize("name", ["softplus", "squared_softplus", "margin", "softmax"])
def test_extreme_scores_give_finite_losses(name):
    settings = LossSettings(name=name)
    loss = corruption_loss(settings, torch.tensor([-1e4, 1e4]), torch.tensor([[1e4], [-1e4]]))
    assert torch.isfinite(loss)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_softmax_over_all(reduction):
    expected = [-np.log(np.exp(SCORES[b, ANSWERS[b]]) / np.exp(SCORES[b]).sum()) for b in range(B)]
    found = softmax_loss(LossSettings(name="softmax", reduction=reduction), *tensors(SCORES, ANSWERS))
    assert float(found) == pytest.approx(getattr(np, reduction)(expected), rel=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_binary_cross_entropy_with_smoothed_labels(reduction, smoothing):
    """Targets (1 − s) y + s/E, averaged over the entities; Dettmers et al.'s program adds 1/E, whatever s is."""
    chance = 1 / (1 + np.exp(-SCORES))
    target = (1 - smoothing) * LABELS + smoothing / E
    expected = -(target * np.log(chance) + (1 - target) * np.log(1 - chance)).mean(1)
    settings = LossSettings(name="bce", reduction=reduction, smoothing=smoothing)
    found = binary_loss(settings, *tensors(SCORES, LABELS))
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
    settings = LossSettings(name="kl", reduction=reduction, smoothing=smoothing)
    found = spread_loss(settings, *tensors(SCORES, *labels.nonzero(), labels.sum(1)))
    assert float(found) == pytest.approx(getattr(np, reduction)(expected), rel=1e-12)


def test_thousands_of_answers_are_added_up_in_more_than_bfloat16():
    scores = torch.linspace(20, 30, 4000)[None]
    rows, answers, counts = torch.zeros(4000, dtype=torch.long), torch.arange(4000), torch.tensor([4000])
    exact, rough = (spread_loss(LossSettings(), x, rows, answers, counts) for x in (scores, scores.bfloat16()))
    assert rough.dtype == torch.float32
    assert float(rough) == pytest.approx(float(exact), rel=2e-3)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, 2])
def test_senseless_smoothing(smoothing):
    with pytest.raises(SettingsError, match=r"loss\.smoothing is"):
        LossSettings(smoothing=smoothing)


@pytest.mark.parametrize("name", OF_ANSWERS)
def test_losses_about_all_answers_need_all_entities(name):
    with pytest.raises(SettingsError, match=rf"'{name}' with sampled negatives.*negatives\.sampler=all"):
        corruption_loss(LossSettings(name=name), *tensors(POSITIVE, NEGATIVE))
