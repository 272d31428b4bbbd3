"""A step with a faster way of its own, for some objectives and optimisers."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from capse.training.batches import Epoch


class Step(Protocol):
    """A whole step of training."""

    def __call__(self, epoch: Epoch, step: int, learning_rate: float) -> Tensor:
        """Take it; returns the loss, which the next step may overwrite."""

    def flush(self) -> None:
        """Write what is pending: tables and optimiser are then where a plain optimiser would have them."""

    def reload(self) -> None:
        """Go on from tables and an optimiser's state that were loaded."""
