"""Optimisers of single rows: a row that no example names is not read and not written.

Adagrad and plain gradient descent move no row without a gradient, so by rows they are the same. Adam would move such a
row on by its momentum; here row and moments wait as they are, as in ``torch.optim.SparseAdam``.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from capse.errors import SettingsError
from capse.training.optimizers import Optimizer

BETA1, BETA2 = 0.9, 0.999  # these and the epsilons are torch's own


class RowOptimizer(Protocol):
    """Changes rows in place; what it keeps of every row is in ``kept``, tensors of the table's shape by name."""

    kept: dict[str, Tensor]

    def __init__(self, table: Tensor) -> None: ...

    def descend(self, table: Tensor, places: Tensor, gradients: Tensor, rate: float, step: int) -> Tensor:
        """The rows (m, k) at these places after step number ``step``, from 1; the table is left as it is."""


class RowAdagrad:
    """s ← s + g²,  p ← p − η g / (√s + ε)  (Duchi et al., JMLR 2011)."""

    def __init__(self, table: Tensor) -> None:
        self.kept = {"sum": torch.zeros_like(table)}

    def descend(self, table: Tensor, places: Tensor, gradients: Tensor, rate: float, step: int) -> Tensor:
        sums = self.kept["sum"][places].addcmul_(gradients, gradients)
        self.kept["sum"].index_copy_(0, places, sums)
        return table[places].addcdiv_(gradients, sums.sqrt_().add_(1e-10), value=-rate)


class RowAdam:
    """m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²,  p ← p − η_s m / (√v / √(1 − β₂^s) + ε) in step s,

    with η_s = η / (1 − β₁^s)."""

    def __init__(self, table: Tensor) -> None:
        self.kept = {name: torch.zeros_like(table) for name in ("exp_avg", "exp_avg_sq")}

    def descend(self, table: Tensor, places: Tensor, gradients: Tensor, rate: float, step: int) -> Tensor:
        first = self.kept["exp_avg"][places].lerp_(gradients, 1 - BETA1)
        second = self.kept["exp_avg_sq"][places].mul_(BETA2).addcmul_(gradients, gradients, value=1 - BETA2)
        self.kept["exp_avg"].index_copy_(0, places, first)
        self.kept["exp_avg_sq"].index_copy_(0, places, second)
        scale = second.sqrt_().div_((1 - BETA2**step) ** 0.5).add_(1e-8)
        return table[places].addcdiv_(first, scale, value=-rate / (1 - BETA1**step))


class RowDescent:
    """p ← p − η g."""

    def __init__(self, table: Tensor) -> None:
        self.kept: dict[str, Tensor] = {}

    def descend(self, table: Tensor, places: Tensor, gradients: Tensor, rate: float, step: int) -> Tensor:
        return table[places].add_(gradients, alpha=-rate)


_KINDS: dict[str, type[RowOptimizer]] = {"adagrad": RowAdagrad, "adam": RowAdam, "sgd": RowDescent}


def works_by_rows(settings: Optimizer) -> bool:
    return settings.name in _KINDS and not settings.embedding_decay


def build_row_optimizer(settings: Optimizer, table: Tensor) -> RowOptimizer:
    """The optimiser that the settings name, over a table (n, k)."""
    if not works_by_rows(settings):
        decay = f" and embedding_decay={settings.embedding_decay:g}" * bool(settings.embedding_decay)
        raise SettingsError(
            f"only touched rows are to be moved by optimizer.name={settings.name}{decay}",
            f"choose one of {', '.join(_KINDS)} without embedding_decay, or in one process optimizer.rows=all",
        )
    return _KINDS[settings.name](table)
