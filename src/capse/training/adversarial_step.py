"""The fused step of adversarial training: DistMult against TransE or TransD, in kernels of our own."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

import torch
from torch import Tensor

from capse.kernels import fused
from capse.kernels.adversarial_tables import Tables
from capse.kernels.scoring import INSTALLED, wanted_kernel
from capse.models import Scorer, TripleModel
from capse.models.distmult import DistMultScorer
from capse.models.transd import TransDScorer
from capse.models.transe import TransEScorer
from capse.models.translation import TranslationScorer
from capse.training.adversary import STEPS, AdversarialObjective
from capse.training.optimizers import Optimizer

MOST = 2**12  # numbers of a triple's candidates: one program holds all of them


class AdversarialStep:
    """Adam on both models, against one drawn negative with a margin loss."""

    @staticmethod
    def is_fit(objective: AdversarialObjective, settings: Optimizer) -> bool:
        plain = objective.loss.name == "margin" and objective.count == 1 and settings.name == "adam"
        free = not (any(objective.regularizer.strengths.values()) or objective.loss.relation_weight)
        free = free and all(model.loops is None for model in objective.models)
        small = objective.candidates * objective.generator.scorer.entity_width <= MOST
        kernel = _kernel(objective.model)
        # A triple without a false version on one side gets one of the other, which the CPU's loops rule out.
        compiled = kernel == "gpu" or (kernel == "cpu" and not objective.corruptor.filtered)
        return plain and free and small and compiled and _in_scope(objective.model.scorer, objective.generator.scorer)

    def __init__(self, objective: AdversarialObjective, optimizers: tuple[torch.optim.Optimizer, ...]) -> None:
        kernel = _kernel(objective.model)
        assert kernel is not None
        self.objective, self.kernels = (
            objective,
            import_module(f"capse.kernels.{kernel}.adversarial"),
        )  # loads a compiler
        self.states = [_ModelState(*pair) for pair in zip(objective.models, optimizers, strict=True)]

    def __call__(self, rows: Tensor) -> Tensor:
        """The step on numbers that were drawn; returns the discriminator's loss."""
        objective, mean = self.objective, self.objective.loss.reduction == "mean"
        discriminator, generator = (Tables(*each.tables, *each.gradients) for each in self.states)
        losses, rewards = self.kernels.add_gradients(
            discriminator,
            generator,
            rows,
            objective.baseline.value,
            candidates=objective.candidates,
            margin=objective.loss.margin,
            share=1 / len(rows) if mean else 1.0,
            projects=isinstance(objective.model.scorer, TransDScorer),
            steps=STEPS,
        )
        objective.baseline.add(rewards)
        for state in self.states:
            state.descend(self.kernels.descend)
        loss: Tensor = losses.mean() if mean else losses.sum()
        return loss


def _kernel(model: TripleModel) -> Literal["cpu", "gpu"] | None:
    """Which kernels there are for a model where it lies; on a CPU Triton's only if they are asked for by name."""
    wanted = wanted_kernel()
    if wanted == "gpu" or (wanted == "auto" and model.device.type == "cuda"):
        return "gpu" if INSTALLED["triton"] else None
    return "cpu" if wanted in ("auto", "cpu") and fused.is_usable(model.entities) else None


def _in_scope(kept: Scorer, generator: Scorer) -> bool:
    if type(generator) is not DistMultScorer or generator.drops_out:
        return False
    return isinstance(kept, TranslationScorer) and type(kept) in (TransEScorer, TransDScorer) and kept.norm == 1


class _ModelState:
    """A model's tables with their gradients and their Adam, whose state is torch's."""

    def __init__(self, model: TripleModel, optimizer: torch.optim.Optimizer) -> None:
        self.tables = [table.detach() for table in model.tables]
        self.gradients = [torch.zeros_like(table) for table in self.tables]
        self.states: list[dict[str, Any]] = [optimizer.state[table] for table in model.tables]
        for state, table in zip(self.states, self.tables, strict=True):
            if not state:
                state["step"] = torch.zeros((), device=table.device)
                state |= {key: torch.zeros_like(table) for key in ("exp_avg", "exp_avg_sq")}
        (self.group,) = optimizer.param_groups
        scorer = model.scorer
        self.dim, self.pulls = model.scorer.entity_width, (0, 0)
        if isinstance(scorer, TranslationScorer):
            self.dim = scorer.dim
            if scorer.unit_ball:
                self.pulls = (1, 1) if scorer.bounded == "all" else (scorer.entity_width // scorer.dim, 0)

    def descend(self, kernel: Any) -> None:
        torch._foreach_add_([state["step"] for state in self.states], 1)
        rate = torch.as_tensor(self.group["lr"])
        for table, gradient, state, pull in zip(self.tables, self.gradients, self.states, self.pulls, strict=True):
            kernel(
                table,
                gradient,
                state["exp_avg"],
                state["exp_avg_sq"],
                state["step"],
                rate,
                decay=self.group["weight_decay"],
                dim=self.dim,
                pull=pull,
            )
