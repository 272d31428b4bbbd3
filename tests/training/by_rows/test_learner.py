"""Steps by rows: what an optimiser of whole tables does, and for Adam torch's SparseAdam."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from capse.errors import SettingsError
from capse.models import TripleModel
from capse.training.batches import draw_epoch
from capse.training.by_rows.learner import Division, RowLearner
from capse.training.by_rows.row_optimizers import RowAdam
from capse.training.losses import Loss
from capse.training.negatives import Negatives
from capse.training.objectives import build_objective
from capse.training.optimizers import Optimizer
from capse.training.regularizers import Regularizer
from capse.training.settings import Training
from tests.training.by_rows.cases import CASES, end_of


def assert_alike(one: tuple[TripleModel, list[float]], other: tuple[TripleModel, list[float]]) -> None:
    np.testing.assert_allclose(one[1], other[1], rtol=1e-6)  # a quick step tells its loss in float32
    for a, b in zip(one[0].parameters(), other[0].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("optimizer", ["adagrad", "sgd"])
def test_by_rows_is_the_same_as_by_tables(case: str, optimizer: str) -> None:
    assert_alike(end_of(case, optimizer, Division()), end_of(case, optimizer, None))


@pytest.mark.parametrize("case", ["softmax over all", "loops"])
def test_where_nothing_is_drawn_parts_are_the_same_too(case: str) -> None:
    assert_alike(end_of(case, "adagrad", Division(8)), end_of(case, "adagrad", None))


def test_adam_is_torchs_sparse_adam() -> None:
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    parameter = torch.nn.Parameter(table.clone())
    plain, ours = torch.optim.SparseAdam([parameter], lr=0.1), RowAdam(table)
    for step, rows in enumerate(([0, 2, 5], [2], [0, 1], [5, 2]), 1):
        places, gradients = torch.tensor(sorted(rows)), torch.randn(len(rows), 3, generator=generator).double()
        parameter.grad = torch.sparse_coo_tensor(places[None], gradients, table.shape, check_invariants=True)
        plain.step()
        table.index_copy_(0, places, ours.descend(table, places, gradients, 0.1, step))
        torch.testing.assert_close(table, parameter.detach(), rtol=1e-4, atol=1e-9)  # its ε is not corrected


def test_the_state_brings_another_learner_to_the_same_place(make_model, triples) -> None:
    def make() -> RowLearner:
        objective = build_objective(make_model("transe"), triples, Loss(), Negatives(), Regularizer())
        return RowLearner(objective, Training(batch_size=10), Optimizer(), Division(4))

    def steps(learner: RowLearner, *which: int) -> dict[str, torch.Tensor]:
        epoch = draw_epoch(learner.examples, 0, draw="shuffle", batch_size=10, seed=0, device=torch.device("cpu"))
        for step in which:
            learner.step(epoch, step, 0.05)
        return {name: tensor.clone() for name, tensor in learner.state_dict().items()}

    whole, learner = steps(make(), 0, 1, 2), make()
    learner.load_state_dict(steps(make(), 0))
    again = steps(learner, 1, 2)
    assert whole.keys() == again.keys()
    assert all(torch.equal(whole[name], again[name]) for name in whole)


@pytest.mark.parametrize(
    ("optimizer", "loss", "negatives", "said"),
    [
        (Optimizer(name="adamw"), Loss(), Negatives(), "choose one of adagrad, adam, sgd"),
        (Optimizer(embedding_decay=0.1), Loss(), Negatives(), "embedding_decay=0.1"),
        (Optimizer(), Loss(name="bce"), Negatives(sampler="all"), "or softmax with negatives.sampler=all"),
    ],
)
def test_what_cannot_go_by_rows_is_refused(make_model, triples, optimizer, loss, negatives, said) -> None:
    objective = build_objective(make_model(), triples, loss, negatives, Regularizer())
    with pytest.raises(SettingsError, match=said):
        RowLearner(objective, Training(), optimizer)
