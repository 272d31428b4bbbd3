"""Trains two models against each other: the discriminator that is kept, and the generator of its negatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from torch import Tensor
from torch.autograd.graph import increment_version

from capse.training.adversarial_step import AdversarialStep
from capse.training.adversary import AdversarialObjective, Adversary
from capse.training.batches import Epoch
from capse.training.checkpoints import Stateful, pack, unpack
from capse.training.cuda_graphs import graph_step
from capse.training.learner import ObjectiveLearner
from capse.training.optimizers import Optimizer, build_optimizer
from capse.training.settings import Training
from capse.training.steps import descend, matmul_precision


class AdversarialLearner(ObjectiveLearner):
    """A step lowers both losses at once: neither model's gradient depends on the other's new weights."""

    objective: AdversarialObjective

    def __init__(
        self, objective: AdversarialObjective, training: Training, optimizer: Optimizer, adversary: Adversary
    ) -> None:
        super().__init__(objective, training)
        decays = {"embedding_decay": adversary.embedding_decay, "weight_decay": adversary.weight_decay}
        of_generator = replace(optimizer, **decays)  # type: ignore[arg-type] # both are numbers
        self.optimizer = build_optimizer(optimizer, objective.model, training.learning_rate)
        self.generator_optimizer = build_optimizer(of_generator, objective.generator, adversary.learning_rate)
        self.rate_factors = {
            self.optimizer: 1.0,
            self.generator_optimizer: adversary.learning_rate / training.learning_rate,
        }
        self.quick_step = (
            graph_step(objective, optimizer, self.rate_factors, batch_size=training.batch_size)
            if self.precision == "float32"
            else None
        )
        self.begin = partial(self._work, optimizer)
        self.work = self.begin()

    def _work(self, settings: Optimizer) -> Callable[[Tensor], Tensor]:
        """What takes a step on numbers that were drawn, where no graph does."""
        if self.quick_step is None and self.precision == "float32" and AdversarialStep.is_fit(self.objective, settings):
            return AdversarialStep(self.objective, tuple(self.rate_factors))
        return partial(descend, self.objective, self.rate_factors, bf16=self.precision == "bf16")

    def step(self, epoch: Epoch, step: int, learning_rate: float) -> Tensor:
        self.objective.baseline.enter(epoch.number)
        if self.quick_step is not None:
            loss = self.quick_step(epoch, step, learning_rate)
        else:
            loss = self._plain_step(epoch, step, learning_rate)
        increment_version([table for model in self.objective.models for table in model.tables])
        return self.summed(loss, epoch, step)

    def _plain_step(self, epoch: Epoch, step: int, learning_rate: float) -> Tensor:
        for optimizer, factor in self.rate_factors.items():
            for group in optimizer.param_groups:
                group["lr"] = factor * learning_rate
        rows = self.objective.rows(epoch.batch(step), epoch.generator(step))
        with matmul_precision("high" if self.precision == "tf32" else None):
            return self.work(rows)

    @property
    def _parts(self) -> dict[str, Stateful]:
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "generator": self.objective.generator,
            "generator_optimizer": self.generator_optimizer,
            "baseline": self.objective.baseline,
        }

    def state_dict(self) -> dict[str, Tensor]:
        return pack(self._parts)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        unpack(self._parts, state)
        if self.quick_step is not None:
            self.quick_step.reload()
        self.work = self.begin()
