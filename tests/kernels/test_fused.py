"""The fused loops give what plain torch gives: scores, gradients, and the unit ball."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from capse import DistMult, TransE
from capse.kernels import fused
from capse.kernels.compiled import numba
from capse.kernels.embedding import embedding
from capse.models.distmult import DistMultScorer
from capse.models.transe import TransEScorer

pytestmark = pytest.mark.skipif(numba is None, reason="numba is not installed")

SCORERS = {
    fused.DISTANCE: TransEScorer(TransE(dim=5)),
    fused.EUCLIDEAN: TransEScorer(TransE(dim=5, norm=2)),
    fused.PRODUCT: DistMultScorer(DistMult(dim=5)),
}


def plain_scores(kind: int, entities: Tensor, relations: Tensor, heads: Tensor, ids: Tensor, tails: Tensor) -> Tensor:
    return SCORERS[kind].score_triples(entities[heads], relations[ids], entities[tails])


def problem(seed: int, batch: int, count: int, width: int = 5) -> tuple[Tensor, ...]:
    """Tables with repeated, zero and equal rows, and ids that repeat and coincide."""
    random = np.random.default_rng(seed)
    entities = torch.from_numpy(random.integers(-2, 3, (7, width)) / 2)
    relations = torch.from_numpy(random.integers(-2, 3, (3, width)) / 2)
    heads, tails = (torch.from_numpy(random.integers(0, 7, (batch, count))) for _ in range(2))
    return entities, relations, heads, torch.from_numpy(random.integers(0, 3, (batch, 1))), tails


@pytest.mark.parametrize("kind", SCORERS)
@given(seed=st.integers(0, 10**6), batch=st.integers(0, 9), count=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_scores_and_gradients_equal_those_of_plain_torch(kind: int, seed: int, batch: int, count: int) -> None:
    entities, relations, *ids = problem(seed, batch, count)
    weights = torch.from_numpy(np.random.default_rng(seed).normal(size=(batch, count)))
    results = []
    for score in (fused.score_triples, plain_scores):
        tables = [table.clone().requires_grad_() for table in (entities, relations)]
        scores = score(kind, *tables, *ids)
        (scores * weights).sum().backward()
        results.append([scores.detach(), *(table.grad for table in tables)])
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


def test_long_rows_are_pulled_to_length_one_and_short_ones_left_alone() -> None:
    table = torch.tensor([[3.0, 4.0, 9.0], [0.3, 0.4, 9.0], [0.0, 0.0, 9.0]])
    fused.pull_into_unit_ball(table, 2)
    torch.testing.assert_close(table, torch.tensor([[0.6, 0.8, 9.0], [0.3, 0.4, 9.0], [0.0, 0.0, 9.0]]))


@given(seed=st.integers(0, 10**6), count=st.integers(0, 12))
@settings(max_examples=40, deadline=None)
def test_gathered_rows_have_the_gradient_of_an_embedding(seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    ids = torch.from_numpy(random.integers(0, 5, (count, 2)))
    weights = torch.from_numpy(random.normal(size=(count, 2, 3)))
    gradients = []
    for gather in (embedding, lambda table, ids: torch.nn.functional.embedding(ids, table)):
        table = torch.from_numpy(random.normal(size=(5, 3))).requires_grad_()
        (gather(table, ids) * weights).sum().backward()
        gradients.append(table.grad)
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)
