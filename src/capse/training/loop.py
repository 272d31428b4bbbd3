"""The training loop.

One step is: draw a batch, let the objective turn it into a loss, step the optimiser, restore the model's constraints.
Batches and negatives come from generators seeded by (seed, epoch, step): the same seed gives the same weights, and a
run resumed at any step goes on exactly as it would have. Nothing here knows what a validation is; it comes in as a
callable that returns the number to be maximised.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from capse.errors import RunError, SettingsError
from capse.training.checkpoints import Checkpoints, Position
from capse.training.interrupts import deferred_interrupt
from capse.training.objectives import Objective
from capse.training.optimizers import OptimizerSettings, build_optimizer, learning_rate_at

Validate = Callable[[], tuple[float, dict[str, Any]]]  # the value to maximise, and what to record beside it


@dataclass(frozen=True)
class TrainingSettings:
    """How long, how fast and where."""

    epochs: int = 50  # 0 makes an untrained run
    batch_size: int = 128
    learning_rate: float = 1e-4
    seed: int = 0
    draw: Literal["shuffle", "replacement"] = "shuffle"  # replacement: independent draws, as the released program
    device: str = "auto"  # auto takes a GPU when there is one
    precision: Literal["float32", "tf32", "bf16"] = "float32"
    checkpoint_seconds: float = 30.0  # at least this long between two checkpoints
    tensorboard: bool = False

    def __post_init__(self) -> None:
        if self.epochs < 0:
            raise SettingsError(f"training.epochs is {self.epochs}", "choose 0 (an untrained run) or more")
        if self.batch_size < 1:
            raise SettingsError(f"training.batch_size is {self.batch_size}", "choose 1 or more")
        if self.learning_rate <= 0:
            raise SettingsError(f"training.learning_rate is {self.learning_rate}", "choose a number above 0")
        if self.seed < 0:
            raise SettingsError(f"training.seed is {self.seed}", "choose 0 or more")


@dataclass(frozen=True)
class ValidationSettings:
    """When to look at the validation set, and what to choose the best epoch by."""

    every: int = 10  # epochs between two looks; 0 never looks and keeps the last epoch
    metric: str = "mrr"  # realistic, both sides, filtered; or e.g. tail.pessimistic.hits@10
    patience: int = 0  # stop after this many looks without gain; 0 never stops early
    triples: int = 0  # look at this many validation triples only, a fixed sample; 0 takes all

    def __post_init__(self) -> None:
        for key in ("every", "patience", "triples"):
            if getattr(self, key) < 0:
                raise SettingsError(f"validation.{key} is {getattr(self, key)}", "choose 0 or more")


@dataclass(frozen=True)
class StepReport:
    """Where the training is, for a progress display."""

    epoch: int  # under way, from 1
    step: int  # finished steps of this epoch
    steps: int  # per epoch
    examples: int  # of this step


class Trainer:
    """Trains an objective's model; `run` yields one record per epoch."""

    def __init__(
        self,
        objective: Objective,
        settings: TrainingSettings,
        optimizer: OptimizerSettings,
        validation: ValidationSettings,
        checkpoints: Checkpoints,
        *,
        validate: Validate | None = None,
        on_step: Callable[[StepReport], None] = lambda report: None,
    ) -> None:
        self.objective = objective
        self.settings = settings
        self.optimizer_settings = optimizer
        self.validation = validation
        self.checkpoints = checkpoints
        self.validate = validate
        self.on_step = on_step
        self.optimizer = build_optimizer(optimizer, objective.model, settings.learning_rate)
        self.position = Position()
        self.steps = max(1, math.ceil(len(objective.examples) / settings.batch_size))
        self._saved_at = time.monotonic()

    def resume(self) -> None:
        """Go on from the last checkpoint."""
        self.position = self.checkpoints.load(self.objective.model, self.optimizer)

    @property
    def finished(self) -> bool:
        patience = self.validation.patience
        tired = bool(patience) and self.position.checks_without_gain >= patience
        return self.position.epoch >= self.settings.epochs or tired

    def run(self) -> Iterator[dict[str, Any]]:
        """Train to the end, or until patience runs out; a checkpoint is written however this ends."""
        try:
            while not self.finished:
                yield self._epoch()
                self._checkpoint_if_due()
        except (KeyboardInterrupt, GeneratorExit):
            self.checkpoints.save(self.objective.model, self.optimizer, self.position)
            raise
        self.checkpoints.save(self.objective.model, self.optimizer, self.position)

    def _epoch(self) -> dict[str, Any]:
        position, model = self.position, self.objective.model
        started, first_step = time.perf_counter(), position.step
        order = self._order(position.epoch)
        model.train()
        while position.step < self.steps:
            # A signal between two lines below would split a step, so Ctrl-C is only looked at between steps.
            with deferred_interrupt():
                self._step(order)
            if position.step < self.steps:
                self._checkpoint_if_due()
        seconds = time.perf_counter() - started
        position.seconds += seconds
        position.epoch += 1
        record = {
            "epoch": position.epoch,
            "loss": position.loss / len(order),
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "seconds": round(position.seconds, 3),
            "examples_per_second": round((self.steps - first_step) * self.settings.batch_size / max(seconds, 1e-9), 1),
        }
        position.step, position.loss = 0, 0.0
        return record | self._look()

    def _step(self, order: Tensor) -> None:
        position, settings, model = self.position, self.settings, self.objective.model
        # Batches of equal size, give or take one: a short last batch would be a step with a loud voice.
        begin, end = (step * len(order) // self.steps for step in (position.step, position.step + 1))
        batch = self.objective.examples[order[begin:end]]
        generator = seeded_generator(model.device, settings.seed, position.epoch, position.step)
        progress = (position.epoch + position.step / self.steps) / settings.epochs
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate_at(self.optimizer_settings, settings.learning_rate, progress)
        self.optimizer.zero_grad()
        with self._precision():
            loss = self.objective(batch, generator)
        loss.backward()
        self.optimizer.step()
        model.constrain()
        position.loss += self._finite(loss)
        position.step += 1
        self.on_step(StepReport(position.epoch + 1, position.step, self.steps, len(batch)))

    def _order(self, epoch: int) -> Tensor:
        """The examples of an epoch in the order they are used."""
        count, device = len(self.objective.examples), self.objective.model.device
        generator = seeded_generator(device, self.settings.seed, epoch)
        if self.settings.draw == "shuffle":
            return torch.randperm(count, device=device, generator=generator)
        drawn = self.steps * self.settings.batch_size
        return torch.randint(count, (drawn,), device=device, generator=generator)

    def _look(self) -> dict[str, Any]:
        """Validate when it is time; remember the best weights."""
        position, every = self.position, self.validation.every
        if self.validate is None or not every:
            return {}
        if position.epoch % every and position.epoch != self.settings.epochs:
            return {}
        self.objective.model.eval()
        value, recorded = self.validate()
        if position.best_value is None or value > position.best_value:
            position.best_value, position.best_epoch, position.checks_without_gain = value, position.epoch, 0
            self.checkpoints.save_best(self.objective.model)
        else:
            position.checks_without_gain += 1
        return {"validation": recorded, "best_epoch": position.best_epoch}

    def _checkpoint_if_due(self) -> None:
        if time.monotonic() - self._saved_at >= self.settings.checkpoint_seconds:
            self.checkpoints.save(self.objective.model, self.optimizer, self.position)
            self._saved_at = time.monotonic()

    def _precision(self) -> AbstractContextManager[Any]:
        if self.settings.precision == "bf16":
            return torch.autocast(self.objective.model.device.type, dtype=torch.bfloat16)
        return nullcontext()

    def _finite(self, loss: Tensor) -> float:
        value = float(loss.detach())
        if not math.isfinite(value):
            raise RunError(
                f"the loss became {value} in epoch {self.position.epoch + 1}, step {self.position.step + 1}",
                "lower training.learning_rate",
            )
        return value


def seeded_generator(device: torch.device, *numbers: int) -> torch.Generator:
    """A generator fixed by ``numbers``; it also seeds torch's own, which dropout draws from."""
    seed = int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])
    torch.default_generator.manual_seed(seed)  # torch.manual_seed takes a hundred times as long
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    return torch.Generator(device).manual_seed(seed)
