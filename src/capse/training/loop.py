"""The training loop.

One step is: draw a batch, let the objective turn it into a loss, step the optimiser, restore the model's constraints.
Batches and negatives come from generators seeded by (seed, epoch, step): the same seed gives the same weights, and a
run resumed at any step goes on exactly as it would have. Nothing here knows what a validation is; it comes in as a
callable that returns the number to be maximised.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from capse.errors import RunError, SettingsError
from capse.training.checkpoints import Checkpoints, Position
from capse.training.graphs import graph_step
from capse.training.interrupts import deferred_interrupt
from capse.training.objectives import Objective
from capse.training.optimizers import OptimizerSettings, build_optimizer, learning_rate_at
from capse.training.rows import row_step
from capse.training.steps import Epoch, Step, seeded_generator

STEPS_BETWEEN_READS = 64  # on a GPU: reading a loss waits for it, and meanwhile nothing new is queued

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
        if not 0 <= self.seed < 2**63:
            raise SettingsError(f"training.seed is {self.seed}", "choose a number from 0 up to, but not, 2^63")


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
        on_epoch: Callable[[dict[str, Any]], None] = lambda record: None,
    ) -> None:
        self.objective = objective
        self.settings = settings
        self.optimizer_settings = optimizer
        self.validation = validation
        self.checkpoints = checkpoints
        self.validate = validate
        self.on_step = on_step
        self.on_epoch = on_epoch
        self.optimizer = build_optimizer(optimizer, objective.model, settings.learning_rate)
        self.position = Position()
        self.steps = max(1, math.ceil(len(objective.examples) / settings.batch_size))
        self.quick_step = self._quick_step()
        self._saved_at = time.monotonic()
        self._unread: list[Tensor] = []  # losses of steps that a GPU may still be at work on

    def resume(self) -> None:
        """Go on from the last checkpoint."""
        self.position = self.checkpoints.load(self.objective.model, self.optimizer)
        if self.quick_step is not None:
            self.quick_step.reload()

    def _quick_step(self) -> Step | None:
        """A step of its own for what is trained here, if there is one."""
        if self.settings.precision != "float32":
            return None
        size, parts = self.settings.batch_size, (self.objective, self.optimizer_settings, self.optimizer)
        by_rows = row_step(*parts, batch_size=size, most_steps=self.settings.epochs * self.steps)
        return by_rows or graph_step(*parts, batch_size=size)

    @property
    def finished(self) -> bool:
        patience = self.validation.patience
        tired = bool(patience) and self.position.checks_without_gain >= patience
        return self.position.epoch >= self.settings.epochs or tired

    def run(self) -> Generator[dict[str, Any], None, None]:
        """Train to the end, or until patience runs out; a checkpoint is written however this ends."""
        try:
            while not self.finished:
                speed = self._train_epoch()
                found = self._look()
                with deferred_interrupt():  # an epoch is counted and its record kept, or neither
                    record = self._count_epoch(speed, found)
                    self.on_epoch(record)
                yield record
                self._checkpoint_if_due()
        except (KeyboardInterrupt, GeneratorExit):
            self._save()
            raise
        self._save()

    def _train_epoch(self) -> float:
        """Do the steps that are left of the epoch under way; returns examples per second."""
        position = self.position
        seconds, examples = position.seconds, 0
        epoch = self._epoch(position.epoch)
        self.objective.model.train()
        while position.step < self.steps:
            # A signal between two lines below would split a step, so Ctrl-C is only looked at between steps.
            with deferred_interrupt():
                examples += self._step(epoch)
            self._checkpoint_if_due()
        return examples / max(position.seconds - seconds, 1e-9)

    def _count_epoch(self, speed: float, found: tuple[float, dict[str, Any]] | None) -> dict[str, Any]:
        """Move on to the next epoch; returns the record of the one that ended, with what the look at it found."""
        position = self.position
        record = {
            "epoch": position.epoch + 1,
            "loss": position.loss / self._examples_per_epoch,
            "learning_rate": self._learning_rate(self.steps - 1),
            "seconds": round(position.seconds, 3),
            "examples_per_second": round(speed, 1),
        }
        position.epoch, position.step, position.loss = position.epoch + 1, 0, 0.0
        if found is None:
            return record
        value, recorded = found
        if self._is_best(value):
            position.best_value, position.best_epoch, position.checks_without_gain = value, position.epoch, 0
        else:
            position.checks_without_gain += 1
        return record | {"validation": recorded, "best_epoch": position.best_epoch}

    def _step(self, epoch: Epoch) -> int:
        """One step; returns the number of its examples."""
        position, model = self.position, self.objective.model
        started = time.perf_counter()
        step, size, rate = position.step, epoch.size(position.step), self._learning_rate(position.step)
        if self.quick_step is not None:
            loss = self.quick_step(epoch, step, rate)
        else:
            loss = self._autograd_step(epoch.batch(step), epoch.generator(step), rate)
            model.constrain()
        # Fused optimisers do not say that they write, and what a model keeps beside its table must not go stale.
        increment_version(model.tables)
        position.step += 1
        self._unread.append(loss.detach() * (1 if self.objective.loss.reduction == "sum" else size))
        if model.device.type == "cpu" or position.step % STEPS_BETWEEN_READS == 0 or position.step == self.steps:
            self._read_losses()
        position.seconds += time.perf_counter() - started
        self.on_step(StepReport(position.epoch + 1, position.step, self.steps, size))
        return size

    def _autograd_step(self, batch: Tensor, generator: torch.Generator, rate: float) -> Tensor:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        with _matmul_precision("high" if self.settings.precision == "tf32" else None):
            with self._autocast():
                loss = self.objective(batch, generator)
            loss.backward()
        self.optimizer.step()
        return loss

    def _learning_rate(self, step: int) -> float:
        """The learning rate of a step of the epoch under way."""
        progress = (self.position.epoch + step / self.steps) / self.settings.epochs
        return learning_rate_at(self.optimizer_settings, self.settings.learning_rate, progress)

    def _epoch(self, number: int) -> Epoch:
        examples, seed, device = self.objective.examples, self.settings.seed, self.objective.model.device
        generator = seeded_generator(device, seed, number, 0)  # its steps count from 1
        if self.settings.draw == "shuffle":
            order = torch.randperm(len(examples), device=device, generator=generator)
        else:
            count = self._examples_per_epoch
            order = torch.randint(len(examples), (count,), device=device, generator=generator)
        return Epoch(number, self.steps, seed, examples, order)

    @property
    def _examples_per_epoch(self) -> int:
        if self.settings.draw == "shuffle":
            return len(self.objective.examples)
        return self.steps * self.settings.batch_size

    def _look(self) -> tuple[float, dict[str, Any]] | None:
        """Validate the epoch that has just been trained when it is time; keep its weights if they are the best.

        The position does not change here: a look that is interrupted is taken again after resuming.
        """
        epoch, every = self.position.epoch + 1, self.validation.every
        if self.validate is None or not every or (epoch % every and epoch != self.settings.epochs):
            return None
        self._settle()
        self.objective.model.eval()
        found = self.validate()
        if self._is_best(found[0]):
            self.checkpoints.save_best(self.objective.model)
        return found

    def _is_best(self, value: float) -> bool:
        return self.position.best_value is None or value > self.position.best_value

    def _checkpoint_if_due(self) -> None:
        if time.monotonic() - self._saved_at >= self.settings.checkpoint_seconds:
            self._save()
            self._saved_at = time.monotonic()

    def _save(self) -> None:
        self._read_losses()
        self._settle()
        self.checkpoints.save(self.objective.model, self.optimizer, self.position)

    def _settle(self) -> None:
        if self.quick_step is not None:
            self.quick_step.settle()
            increment_version(self.objective.model.tables)

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.settings.precision == "bf16":
            return torch.autocast(self.objective.model.device.type, dtype=torch.bfloat16)
        return nullcontext()

    def _read_losses(self) -> None:
        """Add up the losses of the steps since the last time; on a GPU this waits until they are done."""
        first = self.position.step - len(self._unread) + 1
        values = torch.stack(self._unread).tolist() if self._unread else []
        self._unread.clear()
        for step, value in enumerate(values, first):
            if not math.isfinite(value):
                raise RunError(
                    f"the loss became {value} in epoch {self.position.epoch + 1}, step {step}",
                    "lower training.learning_rate",
                )
            self.position.loss += value


@contextmanager
def _matmul_precision(precision: str | None) -> Iterator[None]:
    """Torch's setting for matrix products of float32, for a training step only; None leaves it alone."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision or before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
