"""Batches: which examples each step of an epoch gets, and where its random numbers come from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from capse.arrays import large_array


class Examples(Protocol):
    """What batches are drawn from, by row numbers (B,): a tensor, or anything with columns of its own."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Tensor, /) -> Any: ...


class WholeNumbers:
    """Rows (n, k) of ids as they lie in memory or on disk, in four bytes each; a batch of them has eight."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        return self.rows[rows].long()


def steps_per_epoch(examples: Examples, batch_size: int) -> int:
    return max(1, math.ceil(len(examples) / batch_size))


@dataclass(frozen=True)
class Epoch:
    """The examples of one epoch, divided into steps.

    Batches are of equal size, give or take one: a short last batch would weigh more per example.
    """

    number: int  # from 0
    steps: int
    seed: int
    examples: Examples
    order: Tensor  # the rows that are used, in that order

    def start(self, step: int) -> int:
        """The place in the order at which a step begins, and the one before it ends."""
        return step * len(self.order) // self.steps

    def size(self, step: int) -> int:
        return self.start(step + 1) - self.start(step)

    def batch(self, step: int, count: int = 1) -> Any:
        """The examples of a step, or of ``count`` steps from there on."""
        return self.examples[self.order[self.start(step) : self.start(step + count)]]

    def generator(self, step: int, *part: int) -> torch.Generator:
        """The random numbers of a step, or of a part of it: its own, wherever and with whomever the run was resumed."""
        return seeded_generator(self.order.device, self.seed, self.number, step + 1, *part)  # 0 is the order's


def draw_epoch(
    examples: Examples,
    number: int,
    *,
    draw: Literal["shuffle", "replacement"],
    batch_size: int,
    seed: int,
    device: torch.device,
) -> Epoch:
    """All examples in an order of their own, or full batches of independent draws."""
    steps, generator = steps_per_epoch(examples, batch_size), seeded_generator(device, seed, number, 0)
    if draw == "shuffle":
        order = torch.empty(0, dtype=torch.long, device=device)
        if device.type == "cpu":  # of many examples on disk: it is read once, from its beginning to its end
            order = torch.from_numpy(large_array((len(examples),), np.int64))
        torch.randperm(len(examples), generator=generator, out=order)
    else:
        order = torch.randint(len(examples), (steps * batch_size,), device=device, generator=generator)
    return Epoch(number, steps, seed, examples, order)


def seeded_generator(device: torch.device, *numbers: int) -> torch.Generator:
    """A generator fixed by ``numbers``; it also seeds torch's own, which dropout draws from."""
    seed = int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])
    torch.default_generator.manual_seed(seed)  # torch.manual_seed takes a hundred times as long
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    return torch.Generator(device).manual_seed(seed)
