"""How a step is taken: a plain one, and what one that is faster has to promise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor

from capse.models import TripleModel
from capse.training.batches import Epoch
from capse.training.losses import Loss


class Step(Protocol):
    """A whole step of training, for some objectives and optimisers."""

    def __call__(self, epoch: Epoch, step: int, learning_rate: float) -> Tensor:
        """Take it; returns the loss, which the next step may overwrite."""

    def flush(self) -> None:
        """Write what is pending: tables and optimiser are then where a plain optimiser would have them."""

    def reload(self) -> None:
        """Go on from tables and an optimiser's state that were loaded."""


class DrawnFirst(Protocol):
    """An objective that draws all that is random about a step before it: one tensor of whole numbers."""

    loss: Loss

    @property
    def models(self) -> Sequence[TripleModel]:
        """All that is trained."""

    @property
    def triples_each(self) -> int:
        """How many triples are scored for one example."""

    def rows(self, batch: Any, generator: torch.Generator) -> Tensor:
        """All the numbers of a step for these examples, (B, W)."""

    def losses(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """What the optimisers lower, and the loss that is told of."""


def descend(
    objective: DrawnFirst, optimizers: Iterable[torch.optim.Optimizer], rows: Tensor, *, bf16: bool = False
) -> Tensor:
    """A step on numbers that were drawn; nothing here waits for a GPU, or depends on what is in the tensors."""
    for optimizer in optimizers:
        optimizer.zero_grad()
    with torch.autocast(rows.device.type, torch.bfloat16, enabled=bf16):
        lowered, loss = objective.losses(rows)
    lowered.backward()
    for optimizer in optimizers:
        optimizer.step()
    for model in objective.models:
        model.constrain()
    return loss.detach()


@contextmanager
def matmul_precision(precision: str | None) -> Iterator[None]:
    """Torch's setting for matrix products of float32, for a training step only; None leaves it alone."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision or before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
