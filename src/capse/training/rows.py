"""Gradient descent on the rows that a batch touches, and on no others.

Plain gradient descent leaves a row alone that no example of the batch has. An optimiser that walks the whole table
spends nearly all its time on such rows: with a batch of 128 triples and 40,943 entities, more than nine tenths. This is
the whole step for the one case that is trained that way for thousands of epochs, TransE (L1) with a margin loss.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from capse.kernels import fused
from capse.models.transe import TransE
from capse.training.objectives import CorruptionObjective, Objective
from capse.training.optimizers import OptimizerSettings
from capse.training.regularizers import RegularizerSettings

Step = Callable[[Tensor, torch.Generator, float], Tensor]


def row_step(objective: Objective, optimizer: OptimizerSettings) -> Step | None:
    """A function of batch, generator and learning rate that takes a step and returns the loss; None if none is fit."""
    if type(objective) is not CorruptionObjective or type(objective.model.scorer) is not TransE:
        return None
    model, scorer = objective.model, objective.model.scorer
    if optimizer != OptimizerSettings(name="sgd", schedule=optimizer.schedule):
        return None
    if objective.loss.name != "margin" or objective.regularizer != RegularizerSettings():
        return None
    if scorer.norm != 1 or not fused.is_usable(model.entities):
        return None
    model.constrain()  # a row that is never touched is never pulled back either

    def step(batch: Tensor, generator: torch.Generator, learning_rate: float) -> Tensor:
        heads, relations, tails = objective.versions(batch, generator)
        share = 1 if objective.loss.reduction == "sum" else heads.numel() - len(heads)
        loss = fused.descend_margin(
            model.entities,
            model.relations,
            heads,
            relations,
            tails,
            margin=objective.loss.margin,
            rate=learning_rate / share,
            unit_ball=scorer.unit_ball,
        )
        return torch.tensor(loss / share)

    return step
