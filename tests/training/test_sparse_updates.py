"""Steps that touch only the rows of a batch: the same as a plain optimiser's, however the waiting steps are divided."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from capse.kernels import row_adam
from capse.training import learner, sparse_updates
from capse.training.losses import Loss
from capse.training.negatives import Negatives
from capse.training.objectives import build_objective
from capse.training.optimizers import Optimizer
from capse.training.regularizers import Regularizer

MODELS = {"capse": {"filters": 3, "capsule_dim": 2}, "convkb": {"filters": 3}, "distmult": {}, "complex": {}}


@pytest.fixture
def make_trainer(make_model, triples, trainer_of, monkeypatch):
    monkeypatch.setattr(sparse_updates, "FEW", 0)  # the small graph's batches name nearly all of its entities

    def make(name="capse", *, double=True, regularizer=None, optimizer=None, **settings):
        model = make_model(name, **MODELS.get(name, {}))
        parts = Loss(), Negatives(count=2), regularizer or Regularizer()
        objective = build_objective(model.double() if double else model, triples, *parts)
        return trainer_of(objective, optimizer, **{"epochs": 12, "batch_size": 2, "learning_rate": 0.05, **settings})

    return make


def train(trainer):
    losses = [record["loss"] for record in trainer.run()]
    state = trainer.learner.optimizer.state_dict()["state"]
    tensors = dict(trainer.learner.objective.model.state_dict())
    return losses, tensors | {f"{n}.{key}": x for n, parts in state.items() for key, x in parts.items()}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_adam_ends_where_torch_does(make_trainer, monkeypatch, name, schedule):
    optimizer = Optimizer(schedule=schedule)
    ours = make_trainer(name, optimizer=optimizer)
    assert ours.learner.quick_step is not None
    losses, tensors = train(ours)
    monkeypatch.setattr(learner, "row_step", lambda *parts, **more: None)
    expected_losses, expected = train(make_trainer(name, optimizer=optimizer))
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-9)
    assert tensors.keys() == expected.keys()
    for key, tensor in tensors.items():
        np.testing.assert_allclose(tensor, expected[key], rtol=1e-8, atol=1e-12, err_msg=key)


def test_settling_in_between_changes_no_bit(make_trainer):
    _, expected = train(make_trainer(double=False))
    trainer = make_trainer(double=False)
    trainer.on_step = lambda report: trainer.learner.flush()
    _, tensors = train(trainer)
    assert all(torch.equal(tensors[key], expected[key]) for key in expected)


def test_a_resumed_run_ends_with_the_same_bits(make_trainer):
    _, expected = train(make_trainer(double=False))
    first = make_trainer(double=False)
    epochs = first.run()
    for _ in range(5):
        next(epochs)
    epochs.close()
    second = make_trainer(double=False)
    second.resume()
    assert second.position.epoch == 5
    _, tensors = train(second)
    assert all(torch.equal(tensors[key], expected[key]) for key in expected)


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": Optimizer(name="adamw")},
        {"optimizer": Optimizer(embedding_decay=0.1)},
        {"regularizer": Regularizer(n3=0.1)},
        {"name": "transe"},  # pulled into the unit ball, whether touched or not
        {"precision": "bf16"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_not_used_where_it_would_be_another_training(make_trainer, changes):
    assert make_trainer(**changes).learner.quick_step is None


def test_not_used_where_a_batch_names_most_rows(make_trainer, monkeypatch):
    monkeypatch.setattr(sparse_updates, "FEW", 1)  # 2 * (1 + 2) ids for each triple of a batch, 12 entities
    assert make_trainer(batch_size=1).learner.quick_step is not None
    assert make_trainer(batch_size=2).learner.quick_step is None


def test_a_row_that_rests_for_long_is_as_dense_adam_has_it():
    """Until nothing moves any more, and long beyond."""
    steps, k = 2000, 8
    generator = torch.Generator().manual_seed(0)
    table = torch.nn.Parameter(torch.randn(3, k, dtype=torch.float64, generator=generator))
    gradients = torch.randn(3, k, dtype=torch.float64, generator=generator)
    ours = table.detach().clone().numpy()
    dense = torch.optim.Adam([table], lr=1e-3)
    for step in range(steps):
        table.grad = gradients.clone() if step == 0 else torch.zeros_like(table)
        dense.step()
    first, second, taken = np.zeros_like(ours), np.zeros_like(ours), np.zeros(3, np.int64)
    numbers = np.arange(1, steps + 1)
    sizes, corrections = (np.concatenate([[0], x]) for x in (1e-3 / (1 - 0.9**numbers), np.sqrt(1 - 0.999**numbers)))
    rows = np.arange(3)
    row_adam.descend(ours, first, second, taken, rows, gradients.numpy(), 1, sizes[1], corrections[1])
    row_adam.catch_up(ours, first, second, taken, rows, steps, sizes, corrections)
    np.testing.assert_allclose(ours, table.detach().numpy(), rtol=1e-13)
    np.testing.assert_allclose(first, dense.state[table]["exp_avg"].numpy(), atol=1e-29)
    np.testing.assert_allclose(second, dense.state[table]["exp_avg_sq"].numpy(), rtol=1e-10)
    assert (taken == steps).all()
