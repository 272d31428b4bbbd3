"""The tables that a step of adversarial training works on, in `cpu.adversarial` and `gpu.adversarial` alike."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Tables(NamedTuple):
    """A model's tables, float32, and what has been added to their gradients since `descend` was last called."""

    entities: Tensor
    relations: Tensor
    of_entities: Tensor
    of_relations: Tensor
