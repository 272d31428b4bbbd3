"""The training loop.

One step is: draw a batch, and let the learner take it. Batches and negatives come from generators seeded by
(seed, epoch, step): the same seed gives the same weights, and a run resumed at any step goes on exactly as it would
have. Nothing here knows what a validation is; it comes in as a callable that returns the number to be maximised.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from capse.errors import DivergenceError
from capse.processes.group import Group
from capse.training.batches import Epoch, draw_epoch, steps_per_epoch
from capse.training.checkpoints import Checkpoints, Position
from capse.training.interrupts import deferred_interrupt
from capse.training.learner import Learner
from capse.training.optimizers import Optimizer, learning_rate_at
from capse.training.settings import Training, ValidationPlan

T = TypeVar("T")

STEPS_BETWEEN_READS = 64  # on a GPU: reading a loss waits for it, and meanwhile nothing new is queued

Validate = Callable[[], tuple[float, dict[str, Any]]]  # the value to maximise, and what to record beside it


@dataclass(frozen=True)
class StepReport:
    """Where the training is, for a progress display."""

    epoch: int  # under way, from 1
    step: int  # finished steps of this epoch
    steps: int  # per epoch
    examples: int  # of this step
    epochs: int  # that are planned


class StopTraining(Exception):
    """Raised by who is told of a step or an epoch: the training is to end there."""


class Trainer:
    """Drives a learner through its epochs; `run` yields one record for each."""

    def __init__(
        self,
        learner: Learner,
        settings: Training,
        optimizer: Optimizer,
        validation: ValidationPlan,
        checkpoints: Checkpoints,
        *,
        validate: Validate | None = None,
        on_step: Callable[[StepReport], None] = lambda report: None,
        on_epoch: Callable[[dict[str, Any]], None] = lambda record: None,
        group: Group | None = None,
    ) -> None:
        """``group``: the processes that take the same steps at the same time."""
        self.learner = learner
        self.settings = settings
        self.optimizer = optimizer
        self.validation = validation
        self.checkpoints = checkpoints
        self.validate = validate
        self.on_step = on_step
        self.on_epoch = on_epoch
        self.group = group or Group()
        self.position = Position()
        self.steps = steps_per_epoch(learner.examples, settings.batch_size)
        self._saved_at = time.monotonic()
        self._unread: list[Tensor] = []  # losses of steps that a GPU may still be at work on
        self._enough = False  # whoever watches has asked to stop

    def resume(self) -> None:
        """Go on from the last checkpoint."""
        state, self.position = self.checkpoints.load()
        with self.checkpoints.must_fit():
            self.learner.load_state_dict(state)

    def restore_best(self) -> None:
        """Give the model the weights of the best validated epoch, where there is one."""
        if self.position.best_epoch:
            weights = self.checkpoints.load_best()
            with self.checkpoints.must_fit():
                self.learner.model.load_state_dict(weights)

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
                found = self._validate()
                with deferred_interrupt():  # an epoch is counted and its record kept, or neither
                    record = self._count_epoch(speed, found)
                    self._tell(self.on_epoch, record)
                self._agree()
                yield record
        except (KeyboardInterrupt, GeneratorExit, StopTraining):
            self._save()
            raise
        self._save()

    def _train_epoch(self) -> float:
        """Do the steps that are left of the epoch under way; returns examples per second."""
        position = self.position
        seconds, examples = position.seconds, 0
        epoch = self._epoch(position.epoch)
        self.learner.train(True)
        while position.step < self.steps:
            # A signal between two lines below would split a step, so Ctrl-C waits for its end.
            with deferred_interrupt():
                examples += self._step(epoch)
            self._agree()
        return examples / max(position.seconds - seconds, 1e-9)

    def _epoch(self, number: int) -> Epoch:
        chosen = self.settings
        return draw_epoch(
            self.learner.examples,
            number,
            draw=chosen.draw,
            batch_size=chosen.batch_size,
            seed=chosen.seed,
            device=self.learner.device,
        )

    def _count_epoch(self, speed: float, found: tuple[float, dict[str, Any]] | None) -> dict[str, Any]:
        """Move on to the next epoch; returns the record of the one that ended, with what its validation found."""
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
        position = self.position
        started = time.perf_counter()
        size = epoch.size(position.step)
        self._unread.append(self.learner.step(epoch, position.step, self._learning_rate(position.step)))
        position.step += 1
        on_cpu = self.learner.device.type == "cpu"
        if on_cpu or position.step % STEPS_BETWEEN_READS == 0 or position.step == self.steps:
            self._read_losses()
        position.seconds += time.perf_counter() - started
        self._tell(self.on_step, StepReport(position.epoch + 1, position.step, self.steps, size, self.settings.epochs))
        return size

    def _tell(self, who: Callable[[T], None], what: T) -> None:
        try:
            who(what)
        except StopTraining:
            self._enough = True

    def _agree(self) -> None:
        """What one process is told or wants is done by all, after the same step: to stop, or to save."""
        is_due = self.group.leads and time.monotonic() - self._saved_at >= self.settings.checkpoint_seconds
        told_to_stop, enough, due = self.group.most(self.group.told_to_stop, self._enough, is_due)
        if told_to_stop:
            raise KeyboardInterrupt
        if enough:
            raise StopTraining
        if due:
            self._save()
            self._saved_at = time.monotonic()

    def _learning_rate(self, step: int) -> float:
        """The learning rate of a step of the epoch under way."""
        progress = (self.position.epoch + step / self.steps) / self.settings.epochs
        return learning_rate_at(self.optimizer, self.settings.learning_rate, progress)

    @property
    def _examples_per_epoch(self) -> int:
        if self.settings.draw == "shuffle":
            return len(self.learner.examples)
        return self.steps * self.settings.batch_size

    def _validate(self) -> tuple[float, dict[str, Any]] | None:
        """Validate the epoch that has just been trained when it is time; keep its weights if they are the best.

        The position does not change here: a validation that is interrupted is repeated after resuming.
        """
        epoch, every = self.position.epoch + 1, self.validation.every
        if self.validate is None or not every or (epoch % every and epoch != self.settings.epochs):
            return None
        self.learner.flush()
        self.learner.train(False)
        found = self.validate()
        if self._is_best(found[0]):
            self.checkpoints.save_best(self.learner.model.state_dict())
        return found

    def _is_best(self, value: float) -> bool:
        return self.position.best_value is None or value > self.position.best_value

    def _save(self) -> None:
        self._read_losses()
        self.learner.flush()
        self.checkpoints.save(self.learner.state_dict(), self.position)

    def _read_losses(self) -> None:
        """Add up the losses of the steps since the last time; on a GPU this waits until they are done."""
        first = self.position.step - len(self._unread) + 1
        values = torch.stack(self._unread).tolist() if self._unread else []
        self._unread.clear()
        for step, value in enumerate(values, first):
            if not math.isfinite(value):
                raise DivergenceError(
                    f"the loss became {value} in epoch {self.position.epoch + 1}, step {step}",
                    "lower training.learning_rate",
                )
            self.position.loss += value
