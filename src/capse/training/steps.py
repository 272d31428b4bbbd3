"""Steps: which examples each of an epoch gets, where its random numbers come from, and what takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Epoch:
    """The examples of one epoch, divided into steps.

    Batches are of equal size, give or take one: a short last batch would be a step with a loud voice.
    """

    number: int  # from 0
    steps: int
    seed: int
    examples: Tensor  # (n, ...)
    order: Tensor  # the examples that are used, in that order

    def start(self, step: int) -> int:
        """The place in the order at which a step begins, and the one before it ends."""
        return step * len(self.order) // self.steps

    def size(self, step: int) -> int:
        return self.start(step + 1) - self.start(step)

    def batch(self, step: int, count: int = 1) -> Tensor:
        """The examples of a step, or of ``count`` steps from there on."""
        return self.examples[self.order[self.start(step) : self.start(step + count)]]

    def generator(self, step: int) -> torch.Generator:
        """The random numbers of a step: its own, wherever the run was resumed."""
        return seeded_generator(self.order.device, self.seed, self.number, step + 1)  # 0 is the order's


class Step(Protocol):
    """A whole step of training."""

    def __call__(self, epoch: Epoch, step: int, learning_rate: float) -> Tensor:
        """Take it; returns the loss, which the next step may overwrite."""

    def settle(self) -> None:
        """Bring tables and optimiser to where a plain optimiser would have them."""

    def reload(self) -> None:
        """Go on from tables and an optimiser's state that were loaded."""


def seeded_generator(device: torch.device, *numbers: int) -> torch.Generator:
    """A generator fixed by ``numbers``; it also seeds torch's own, which dropout draws from."""
    seed = int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])
    torch.default_generator.manual_seed(seed)  # torch.manual_seed takes a hundred times as long
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    return torch.Generator(device).manual_seed(seed)
