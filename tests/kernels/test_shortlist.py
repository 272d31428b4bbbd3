"""Short lists get the scores of the formula, written here in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from capse.kernels.shortlist import ShortLists
from capse.kernels.stage import Stage
from capse.models import CapsE, CapsESettings, ConvKB, ConvKBSettings, TransE, TranslationSettings
from capse.models.shortlist import ListScorer


def stage(kind, k=7, n=13, d=3, **options):
    draw = torch.Generator().manual_seed(0)
    sizes = ((3, n), (n,), (k, n, 1 if kind == "linear" else d))
    return Stage(*(torch.randn(size, generator=draw) for size in sizes), kind=kind, **options)


@pytest.mark.parametrize("kind", ["linear", "length", "paper"])
@pytest.mark.parametrize("count", [1, 5, 10])
def test_scores_are_those_of_the_formula(kind, count):
    random = np.random.default_rng(1)
    h, r = random.normal(size=(2, 7)).astype(np.float32)
    candidates = random.normal(size=(count, 7)).astype(np.float32)
    given = stage(kind)
    filters, bias, weights = (tensor.numpy().astype(np.float64) for tensor in given.tensors.values())
    expected = []
    for t in candidates.astype(np.float64):
        features = np.maximum(np.stack([h, r, t], axis=1) @ filters + bias, 0)  # (k, N)
        s = sum(features[i] @ weights[i] for i in range(7))
        square = float(((s / 7) ** 2).sum())
        expected.append({"linear": s[0], "length": square**0.5, "paper": square / (1 + square)}[kind])
    assert ShortLists.serve(given)
    np.testing.assert_allclose(ShortLists(given).score(h, r, candidates), expected, rtol=1e-4)


def test_equal_candidates_get_equal_scores():
    random = np.random.default_rng(2)
    h, r, t = random.normal(size=(3, 7)).astype(np.float32)
    scores = ShortLists(stage("paper")).score(h, r, np.stack([t, h, t, r, t]))
    assert scores[0] == scores[2] == scores[4] != scores[1]


def test_what_it_does_not_serve_is_left_to_torch():
    assert not ShortLists.serve(stage("released"))
    assert not ShortLists.serve(stage("paper", routing=3))


@pytest.mark.parametrize(
    "scorer",
    [
        CapsE(CapsESettings(dim=7, filters=13)),
        CapsE(CapsESettings(dim=7, filters=12, variant="scaled", filter_start="distance")),
        CapsE(CapsESettings(dim=7, filters=13, variant="released")),
        CapsE(CapsESettings(dim=7, filters=13, routing=3)),
        ConvKB(ConvKBSettings(dim=7, filters=13)),
        TransE(TranslationSettings(dim=7)),
    ],
)
def test_every_scorer_gives_a_list_what_it_gives_its_triples(scorer):
    random = np.random.default_rng(3)
    h, r = random.normal(size=(2, 7)).astype(np.float32)
    candidates = random.normal(size=(10, 7)).astype(np.float32)
    with torch.no_grad():
        expected = scorer.score_triples(*map(torch.from_numpy, (h[None], r[None], candidates)))
    np.testing.assert_allclose(ListScorer(scorer).score(h, r, candidates), expected.numpy(), rtol=1e-4, atol=1e-6)
