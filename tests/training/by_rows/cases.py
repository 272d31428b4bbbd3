"""Trainings of the small graph: models, losses and negatives of every kind that goes by rows."""

from __future__ import annotations

from typing import Any

import torch

from capse.models import TripleModel
from capse.training.batches import draw_epoch
from capse.training.by_rows.learner import Division, RowLearner
from capse.training.learner import GradientLearner
from capse.training.losses import Loss
from capse.training.negatives import Negatives
from capse.training.objectives import build_objective
from capse.training.optimizers import Optimizer
from capse.training.regularizers import Regularizer
from capse.training.settings import Training
from tests.training.small_graph import draw_triples, random_model

SOFTMAX = Loss(name="softmax", reduction="mean", relation_weight=0.5)
CASES: dict[str, tuple[str, dict[str, Any], Loss, Negatives, Regularizer]] = {
    "transe": ("transe", {}, Loss(name="margin"), Negatives(count=3), Regularizer()),
    "transd": ("transd", {"bounded": "all"}, Loss(), Negatives(sampler="shared", count=5), Regularizer(l2=0.1)),
    "complex": ("complex", {"reciprocal": True}, SOFTMAX, Negatives(sampler="shared", count=6), Regularizer(n3=0.1)),
    "softmax over all": ("complex", {}, SOFTMAX, Negatives(sampler="all"), Regularizer(n3=0.1)),
    "loops": ("distmult", {"self_loops": True}, Loss(name="softmax"), Negatives(sampler="all"), Regularizer()),
    "convkb": ("convkb", {"filters": 3}, Loss(), Negatives(count=2), Regularizer(weights=0.1)),
    "capse": ("capse", {"filters": 3}, Loss(), Negatives(count=2), Regularizer()),
}


def end_of(
    case: str, optimizer: str, division: Division | None, dtype: torch.dtype = torch.float64
) -> tuple[TripleModel, list[float]]:
    """The model and the losses of two epochs; without a division by whole tables."""
    name, settings, loss, negatives, regularizer = CASES[case]
    model = random_model(name, **settings).to(dtype)
    model.constrain()
    objective = build_objective(model, draw_triples(), loss, negatives, regularizer)
    training = Training(epochs=2, batch_size=10, learning_rate=0.05)
    chosen = Optimizer(name=optimizer)  # type: ignore[arg-type]
    if division is not None and (shards := division.shards(len(model.entities))):
        model.keep_rows(shards.own)
    whole = GradientLearner(objective, training, chosen)
    learner = whole if division is None else RowLearner(objective, training, chosen, division)
    learner.train(True)
    losses = []
    for number in range(2):
        epoch = draw_epoch(learner.examples, number, draw="shuffle", batch_size=10, seed=0, device=torch.device("cpu"))
        losses += [float(learner.step(epoch, step, 0.05)) for step in range(epoch.steps)]
    learner.flush()
    return model, losses
