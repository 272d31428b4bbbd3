"""Optimisers that touch the rows of a batch, and no others.

An optimiser that walks whole tables spends nearly all its time on rows that no example of the batch has: with a batch
of 128 triples and 40,943 entities, more than nine tenths. Two cases have a step of their own, on a CPU: plain gradient
descent on TransE (L1) with a margin loss, which leaves other rows alone, and Adam, which lets them drift.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from capse.kernels import fused
from capse.models.base import Scorer
from capse.models.transe import TransEScorer
from capse.training.batches import Epoch
from capse.training.objectives import CorruptionObjective, Objective
from capse.training.optimizers import Optimizer
from capse.training.steps import Step

FEW = 8  # a batch must name fewer than one in so many of the rows for their bookkeeping to pay


def row_step(
    objective: Objective,
    settings: Optimizer,
    optimizer: torch.optim.Optimizer,
    *,
    batch_size: int,
    most_steps: int,
) -> Step | None:
    """The step that is fit for an objective and an optimiser, in a training of ``most_steps``; None if none is."""
    if type(objective) is not CorruptionObjective or not fused.is_usable(objective.model.entities):
        return None
    if objective.loss.relation_weight or objective.model.loops is not None:  # neither knows these terms
        return None
    if settings == Optimizer(name="sgd", schedule=settings.schedule):
        return _MarginStep(objective) if _MarginStep.is_fit(objective) else None
    if settings == Optimizer(name="adam", schedule=settings.schedule):
        fit = _AdamStep.is_fit(objective, batch_size)
        return _AdamStep(objective, optimizer, most_steps) if fit else None
    return None


class _MarginStep:
    """Gradient descent on TransE (L1) with a margin loss."""

    @staticmethod
    def is_fit(objective: CorruptionObjective) -> bool:
        scorer = objective.model.scorer
        plain = objective.loss.name == "margin" and not any(objective.regularizer.strengths.values())
        plain = plain and objective.weights is None
        known = type(scorer) is TransEScorer and scorer.norm == 1 and scorer.bounded == "entities"
        return plain and known

    def __init__(self, objective: CorruptionObjective) -> None:
        self.objective = objective
        objective.model.constrain()  # a row that is never touched is never pulled back either

    def __call__(self, epoch: Epoch, step: int, learning_rate: float) -> Tensor:
        model, loss = self.objective.model, self.objective.loss
        assert isinstance(model.scorer, TransEScorer)
        heads, relations, tails = self.objective.versions(epoch.batch(step), epoch.generator(step))
        share = 1 if loss.reduction == "sum" else heads.numel() - len(heads)
        total = fused.descend_margin(
            model.entities,
            model.relations,
            heads,
            relations,
            tails,
            margin=loss.margin,
            rate=learning_rate / share,
            unit_ball=model.scorer.unit_ball,
        )
        return torch.tensor(total / share)

    def flush(self) -> None:
        pass

    def reload(self) -> None:
        pass


class _AdamStep:
    """Adam on any model without constraints: the tables by rows, everything else by torch's."""

    @staticmethod
    def is_fit(objective: CorruptionObjective, batch_size: int) -> bool:
        unconstrained = type(objective.model.scorer).constrain is Scorer.constrain
        named = 2 * (1 + objective.count) * batch_size
        few = FEW * named < len(objective.model.entities)
        of_tables = {name for name, strength in objective.regularizer.strengths.items() if strength} - {"weights"}
        return few and unconstrained and not of_tables

    def __init__(self, objective: CorruptionObjective, optimizer: torch.optim.Optimizer, most_steps: int) -> None:
        self.objective, self.optimizer, self.most_steps = objective, optimizer, most_steps
        self.reload()

    def reload(self) -> None:
        model = self.objective.model
        self.entities = _Table(model.entities, self.optimizer, self.most_steps)
        self.relations = _Table(model.relations, self.optimizer, self.most_steps)

    def __call__(self, epoch: Epoch, step: int, learning_rate: float) -> Tensor:
        batch = epoch.batch(step)
        heads, relations, tails = self.objective.versions(batch, epoch.generator(step))
        of_entities, places = torch.unique(torch.cat([heads, tails], 1), return_inverse=True)
        of_relations, kinds = torch.unique(relations.unsqueeze(1), return_inverse=True)
        entities, used = self.entities.rows(of_entities), self.relations.rows(of_relations)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.zero_grad()
        first, last = places.split(heads.shape[1], dim=1)
        loss = self.objective.loss_of(self.objective.model.score_from(entities, used, first, kinds, last), batch)
        loss.backward()
        self.optimizer.step()  # in which the tables have no gradient
        self.entities.descend(of_entities, entities.grad, learning_rate)
        self.relations.descend(of_relations, used.grad, learning_rate)
        return loss

    def flush(self) -> None:
        self.entities.flush()
        self.relations.flush()


class _Table:
    """A table whose rows take their steps when they are needed; its Adam's state is torch's, but for when."""

    def __init__(self, table: torch.nn.Parameter, optimizer: torch.optim.Optimizer, most_steps: int) -> None:
        from capse.kernels import row_adam  # here, since it loads numba

        self.kernel = row_adam
        self.state = optimizer.state[table]
        if not self.state:
            self.state["step"] = torch.tensor(0.0)
            self.state |= {key: torch.zeros_like(table) for key in ("exp_avg", "exp_avg_sq")}
        self.taken = int(self.state["step"])
        self.table = table.detach()
        self.arrays = [x.numpy() for x in (self.table, self.state["exp_avg"], self.state["exp_avg_sq"])]
        self.steps = np.full(len(table), self.taken)  # the last that each row took
        numbers = np.arange(most_steps + 1)
        self.corrections = np.sqrt(1 - row_adam.BETA2**numbers)
        self.sizes = np.zeros(most_steps + 1)

    def rows(self, ids: Tensor) -> Tensor:
        """The vectors of these rows as they are now, to be differentiated."""
        self._catch_up(ids.numpy())
        return self.table[ids].requires_grad_()

    def descend(self, ids: Tensor, gradients: Tensor | None, learning_rate: float) -> None:
        """The next step."""
        self.taken += 1
        self.sizes[self.taken] = learning_rate / (1 - self.kernel.BETA1**self.taken)
        if gradients is not None:
            size, correction = self.sizes[self.taken], self.corrections[self.taken]
            self.kernel.descend(
                *self.arrays, self.steps, ids.numpy(), gradients.contiguous().numpy(), self.taken, size, correction
            )

    def flush(self) -> None:
        self._catch_up(np.arange(len(self.steps)))
        self.state["step"].fill_(self.taken)

    def _catch_up(self, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        self.kernel.catch_up(*self.arrays, self.steps, rows, self.taken, self.sizes, self.corrections)
