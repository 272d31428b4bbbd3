"""Checkpoints: everything that a killed run needs to end as if it had not been killed.

Random numbers are drawn from generators seeded by (seed, epoch, step), so no generator state is stored: the weights,
the optimiser's state and the position are the whole state.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from capse.errors import RunError
from capse.models import Model
from capse.runs.tensors import load_tensors, save_tensors

_REMEDY = "delete the checkpoints folder; --resume then begins anew"


@dataclass
class Position:
    """How far a training has come."""

    epoch: int = 0  # finished epochs
    step: int = 0  # finished steps of the epoch under way
    loss: float = 0.0  # summed over the examples of those steps
    seconds: float = 0.0  # of training so far, over all sessions
    best_value: float | None = None  # of the validation metric
    best_epoch: int = 0
    checks_without_gain: int = 0


class Checkpoints:
    """``last.safetensors`` to resume from and ``best.safetensors``, the weights of the best validated epoch."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        """``fingerprint`` identifies data and settings; a checkpoint of other ones is refused."""
        self.last = folder / "last.safetensors"
        self.best = folder / "best.safetensors"
        self.fingerprint = fingerprint

    def save(self, model: Model, optimizer: torch.optim.Optimizer, position: Position) -> None:
        tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
        for number, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{key}": value for key, value in state.items() if value is not None}
        self._write(self.last, tensors, {"position": asdict(position)})

    def load(self, model: Model, optimizer: torch.optim.Optimizer) -> Position:
        """Put the last checkpoint into ``model`` and ``optimizer``."""
        tensors, metadata = self._read(self.last)
        self._into(model, {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")})
        states: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("optimizer."):
                _, number, key = name.split(".", 2)
                states.setdefault(int(number), {})[key] = value
        optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
        try:
            return Position(**metadata["position"])
        except (KeyError, TypeError) as error:
            raise RunError(f"{self.last} does not say how far the training had come", _REMEDY) from error

    def save_best(self, model: Model) -> None:
        self._write(self.best, dict(model.state_dict()), {})

    def load_best(self, model: Model) -> None:
        """Put the weights of the best validated epoch into ``model``."""
        tensors, _ = self._read(self.best)
        self._into(model, tensors)

    def _write(self, path: Path, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
        save_tensors(path, tensors, {"fingerprint": self.fingerprint, **metadata})

    def _read(self, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, metadata = load_tensors(path, _REMEDY)
        if metadata.get("fingerprint") != self.fingerprint:
            raise RunError(
                f"{path} belongs to other data or other settings",
                "resume with the same recipe and data, or choose another --out",
            )
        return tensors, metadata

    def _into(self, model: Model, tensors: dict[str, Tensor]) -> None:
        try:
            model.load_state_dict(tensors)
        except RuntimeError as error:
            raise RunError(f"{self.last.parent} does not fit this model", _REMEDY) from error
