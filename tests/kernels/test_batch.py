"""A batch's scores and gradients by compiled loops, compared with autograd through the plain formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from capse.kernels import reference, scoring
from capse.kernels.cpu import batch
from capse.kernels.cpu.batch import score_batch
from capse.kernels.stage import Stage

CASES = [("linear", 1), *((kind, routing) for kind in ("length", "paper", "released") for routing in (1, 3))]
NAMES = ["h", "r", "t", "filters", "bias", "weights"]

cases = pytest.mark.parametrize(("kind", "routing"), CASES)


@pytest.fixture(autouse=True, scope="module")
def in_one_thread(one_thread: None) -> None:
    """Tensors this small are done before a second thread has woken up."""


def draw(kind, *, dtype=torch.float64, triples=(7, 2), k=6, filters=11, d=5, seed=0):
    """h, r, t and the three tensors of a stage; r is shared by a row's triples, as in training."""
    generator = torch.Generator().manual_seed(seed)
    d = 1 if kind == "linear" else d
    shapes = (*triples, k), (triples[0], 1, k), (*triples, k), (3, filters), (filters,), (k, filters, d)
    return [(0.5 * torch.randn(shape, generator=generator)).to(dtype).requires_grad_() for shape in shapes]


def stage_of(tensors, kind, routing):
    released = kind == "released"
    scale, epsilon = (float(len(tensors[-1])), 1e-9) if released else (1.0, 0.0)
    filters, bias, weights = tensors[3:]
    return Stage(filters, bias, weights, kind=kind, routing=routing, scale=scale, epsilon=epsilon)


def scores_and_gradients(score, tensors, kind, routing):
    scores = score(stage_of(tensors, kind, routing), *tensors[:3])
    weights = torch.linspace(-1, 2, scores.numel(), dtype=scores.dtype).view(scores.shape)
    return scores.detach(), torch.autograd.grad((weights * scores).sum(), tensors)


@cases
@pytest.mark.parametrize("filters", [1, 2, 11, 24])  # what a loop over eight, two and one leaves over
def test_equals_the_formula(kind, routing, filters):
    tensors = draw(kind, filters=filters)
    expected, of_expected = scores_and_gradients(reference.score, tensors, kind, routing)
    ours, of_ours = scores_and_gradients(score_batch, tensors, kind, routing)
    torch.testing.assert_close(ours, expected, rtol=1e-11, atol=1e-13)
    for name, gradient, plain in zip(NAMES, of_ours, of_expected, strict=True):
        np.testing.assert_allclose(gradient, plain, rtol=1e-9, atol=1e-12, err_msg=name)


@cases
def test_tiles_change_nothing_but_rounding(kind, routing):
    tensors = draw(kind, triples=(batch.TILE // 2 + 5, 2))  # one whole tile and a part of a second
    expected, of_expected = scores_and_gradients(reference.score, tensors, kind, routing)
    ours, of_ours = scores_and_gradients(score_batch, tensors, kind, routing)
    torch.testing.assert_close(ours, expected, rtol=1e-11, atol=1e-13)
    for gradient, plain in zip(of_ours, of_expected, strict=True):
        torch.testing.assert_close(gradient, plain, rtol=1e-9, atol=1e-11)


@cases
def test_float32_is_as_near_as_plain_float32(kind, routing):
    wide = draw(kind, triples=(64, 2), k=20, filters=50, d=10)
    narrow = [x.detach().float().requires_grad_() for x in wide]
    exact = scores_and_gradients(reference.score, wide, kind, routing)
    plain, ours = (scores_and_gradients(score, narrow, kind, routing) for score in (reference.score, score_batch))

    def worst(found):
        return max(
            float((x - true).abs().max() / true.abs().max())
            for x, true in zip((found[0], *found[1]), (exact[0], *exact[1]), strict=True)
        )

    assert worst(ours) < max(4 * worst(plain), 1e-5)


def test_a_feature_that_is_off_passes_no_gradient():
    tensors = draw("paper")
    with torch.no_grad():
        tensors[4].fill_(-1e3)  # the bias
    scores, gradients = scores_and_gradients(score_batch, tensors, "paper", 1)
    assert not scores.any()
    assert not any(gradient.any() for gradient in gradients)


@pytest.mark.parametrize("name", NAMES)
def test_nan_is_not_lost(name):
    tensors = draw("paper")
    with torch.no_grad():
        tensors[NAMES.index(name)].view(-1)[0] = torch.nan
    assert score_batch(stage_of(tensors, "paper", 1), *tensors[:3]).isnan().any()


def test_used_where_a_gradient_is_wanted_and_nowhere_else(monkeypatch):
    used = []
    monkeypatch.setattr(batch, "score_batch", lambda *parts: used.append(True) or score_batch(*parts))
    tensors = draw("paper")
    stage = stage_of(tensors, "paper", 1)
    scoring.score_triples(stage, *tensors[:3])
    assert used == [True]
    with torch.no_grad():
        scoring.score_triples(stage, *tensors[:3])
    with scoring.forced("reference"):
        scoring.score_triples(stage, *tensors[:3])
    assert used == [True]
