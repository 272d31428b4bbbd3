"""What takes the steps of a training: a model, its optimiser, and whatever else a step changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from capse.models import Model
from capse.training.batches import Epoch, Examples, steps_per_epoch
from capse.training.checkpoints import pack, unpack
from capse.training.cuda_graphs import graph_step
from capse.training.objectives import Objective
from capse.training.optimizers import Optimizer, build_optimizer, check_training_memory
from capse.training.settings import Training
from capse.training.sparse_updates import row_step
from capse.training.steps import Step, matmul_precision


class Learner(Protocol):
    """What the trainer drives. It may have as many modules and optimisers as it likes: its state is all of them."""

    @property
    def examples(self) -> Examples: ...

    @property
    def model(self) -> nn.Module:
        """What is validated, and kept where it is the best."""

    @property
    def device(self) -> torch.device: ...

    def train(self, mode: bool) -> object:
        """Switch all modules to training, or to evaluation."""

    def step(self, epoch: Epoch, step: int, learning_rate: float) -> Tensor:
        """Take a step; returns the loss summed over its examples, on its device."""

    def flush(self) -> None:
        """Bring weights and state to where the steps taken leave them, if some of that waits to be done."""

    def state_dict(self) -> dict[str, Tensor]:
        """All that the steps so far have changed."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> object:
        """Go on from such a state."""


class ObjectiveLearner:
    """What learners that lower an objective's loss have in common."""

    objective: Objective
    model: Model

    def __init__(self, objective: Objective, training: Training) -> None:
        self.objective, self.model, self.examples = objective, objective.model, objective.examples
        self.precision = training.precision

    @property
    def device(self) -> torch.device:
        return self.model.device

    def train(self, mode: bool) -> None:
        self.objective.train(mode)

    def flush(self) -> None:
        """Every step is written at once."""

    def summed(self, loss: Tensor, epoch: Epoch, step: int) -> Tensor:
        """The loss over all examples of a step, given that of the objective, which may be a mean."""
        return loss.detach() * (1 if self.objective.loss.reduction == "sum" else epoch.size(step))


class GradientLearner(ObjectiveLearner):
    """Lowers an objective's loss by one optimiser over its model's tables and weights."""

    def __init__(self, objective: Objective, training: Training, optimizer: Optimizer) -> None:
        super().__init__(objective, training)
        self.compute: Callable[[Any, torch.Generator], Tensor] = objective  # or a wrapper of it that shares gradients
        check_training_memory(optimizer, self.model)
        self.optimizer = build_optimizer(optimizer, self.model, training.learning_rate)
        self.rate_factors = {self.optimizer: 1.0}
        self.quick_step = self._quick_step(training, optimizer)

    def _quick_step(self, training: Training, settings: Optimizer) -> Step | None:
        """A step of its own for what is trained here, if there is one."""
        if self.precision != "float32":
            return None
        size, parts = training.batch_size, (self.objective, settings, self.optimizer)
        most_steps = training.epochs * steps_per_epoch(self.examples, size)
        by_rows = row_step(*parts, batch_size=size, most_steps=most_steps)
        return by_rows or graph_step(self.objective, settings, self.rate_factors, batch_size=size)

    def step(self, epoch: Epoch, step: int, learning_rate: float) -> Tensor:
        if self.quick_step is not None:
            loss = self.quick_step(epoch, step, learning_rate)
        else:
            loss = self._autograd_step(epoch.batch(step), epoch.generator(step), learning_rate)
            self.model.constrain()
        self._tables_changed()
        return self.summed(loss, epoch, step)

    def _autograd_step(self, batch: Any, generator: torch.Generator, learning_rate: float) -> Tensor:
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.zero_grad()
        with matmul_precision("high" if self.precision == "tf32" else None):
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
                loss = self.compute(batch, generator)
            loss.backward()
        self.optimizer.step()
        return loss

    def flush(self) -> None:
        if self.quick_step is not None:
            self.quick_step.flush()
            self._tables_changed()

    def _tables_changed(self) -> None:
        """Fused optimisers do not say that they write, and what a model keeps beside its table must not go stale."""
        increment_version(self.model.tables)

    def state_dict(self) -> dict[str, Tensor]:
        return pack({"model": self.model, "optimizer": self.optimizer})

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        unpack({"model": self.model, "optimizer": self.optimizer}, state)
        if self.quick_step is not None:
            self.quick_step.reload()
