"""Optimisers with decay rates of their own for embeddings and for the scorer's weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from capse.errors import SettingsError
from capse.models import Model
from capse.runs.memory import check_memory
from capse.runs.settings import Section, check_choices


@dataclass(frozen=True)
class Optimizer(Section):
    """Which optimiser. The learning rate is ``training.learning_rate``."""

    name: Literal["adam", "adamw", "adagrad", "sgd"] = "adam"  # adamw decays weights apart from the gradient
    embedding_decay: float = 0.0  # weight decay of the tables
    weight_decay: float = 0.0  # weight decay of everything else
    schedule: Literal["constant", "cosine"] = "constant"  # cosine: from the learning rate down to zero at the end
    rows: Literal["auto", "all", "touched"] = "auto"
    """Which entities' vectors a step moves. ``touched``: those that its batch names, so that a step costs the same on
    any graph; for adagrad and sgd that is the same, an entity's Adam then stands still where it is not named.
    ``auto``: ``touched`` from 100,000 entities on."""

    def __post_init__(self) -> None:
        check_choices(self, "optimizer")
        for key in ("embedding_decay", "weight_decay"):
            if getattr(self, key) < 0:
                raise SettingsError(f"optimizer.{key} is {getattr(self, key)}", "choose 0 or more")


def build_optimizer(
    settings: Optimizer, model: Model, learning_rate: float, tables: Sequence[torch.nn.Parameter] | None = None
) -> torch.optim.Optimizer:
    """The optimiser over the model's tables, or some of them, and weights, in one fused pass over each tensor."""
    groups: list[dict[str, Any]] = [
        {"params": list(model.tables if tables is None else tables), "weight_decay": settings.embedding_decay},
        {"params": list(model.scorer.parameters()), "weight_decay": settings.weight_decay},
    ]
    groups = [group for group in groups if group["params"]]
    kinds: dict[str, Any] = {
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
        "adagrad": torch.optim.Adagrad,
        "sgd": torch.optim.SGD,
    }
    fused = settings.name != "adagrad" or model.device.type == "cpu"  # torch has no fused Adagrad on a GPU
    optimizer: torch.optim.Optimizer = kinds[settings.name](groups, lr=learning_rate, fused=fused)
    return optimizer


def check_training_memory(settings: Optimizer, model: Model) -> None:
    """Refuse a training on a CPU that has no room for gradients, what the optimiser keeps of them, and a checkpoint."""
    kept = {"adam": 2, "adamw": 2, "adagrad": 1, "sgd": 0}[settings.name]
    numbers = sum(parameter.numel() for parameter in model.parameters())
    if model.device.type == "cpu":
        remedy = "lower model.dim, or set optimizer.name=sgd, which keeps nothing"
        check_memory(f"training {numbers:,} numbers with {settings.name}", 4 * 2 * (1 + kept) * numbers, remedy)


def learning_rate_at(settings: Optimizer, learning_rate: float, progress: float) -> float:
    """The learning rate at a share ``progress`` (0 to 1) of the training."""
    if settings.schedule == "cosine":
        return learning_rate * 0.5 * (1 + math.cos(math.pi * progress))
    return learning_rate
