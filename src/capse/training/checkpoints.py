"""Checkpoints: everything that a killed run needs to end as if it had not been killed.

Random numbers are drawn from generators seeded by (seed, epoch, step), so no generator state is stored: what the
learner says is its state, and the position, are all there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from capse.errors import RunError
from capse.processes.group import Group
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

    def __init__(self, folder: Path, fingerprint: str, group: Group | None = None) -> None:
        """``fingerprint`` identifies data and settings; a checkpoint of other ones is refused.

        All of a ``group`` have the same state, and the first writes it.
        """
        self.group = group or Group()
        self.last = folder / "last.safetensors"
        self.best = folder / "best.safetensors"
        self.fingerprint = fingerprint

    @property
    def exists(self) -> bool:
        """Whether there is something to resume from."""
        return self.last.exists()

    def save(self, state: Mapping[str, Tensor], position: Position) -> None:
        self._write(self.last, state, {"position": asdict(position)})

    def load(self) -> tuple[dict[str, Tensor], Position]:
        tensors, metadata = self._read(self.last)
        try:
            return tensors, Position(**metadata["position"])
        except (KeyError, TypeError) as error:
            raise RunError(f"{self.last} does not say how far the training had come", _REMEDY) from error

    def save_best(self, weights: Mapping[str, Tensor]) -> None:
        self._write(self.best, weights, {})

    def load_best(self) -> dict[str, Tensor]:
        return self._read(self.best)[0]

    @contextmanager
    def must_fit(self) -> Iterator[None]:
        """Say what is wrong where what was read is put into modules that it does not fit."""
        try:
            yield
        except (RuntimeError, KeyError) as error:
            raise RunError(f"{self.last.parent} does not fit this model", _REMEDY) from error

    def _write(self, path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, Any]) -> None:
        if self.group.leads:
            save_tensors(path, dict(tensors), {"fingerprint": self.fingerprint, **metadata})

    def _read(self, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, metadata = load_tensors(path, _REMEDY)
        if metadata.get("fingerprint") != self.fingerprint:
            raise RunError(
                f"{path} belongs to other data or other settings",
                "resume with the same recipe and data, or choose another --out",
            )
        return tensors, metadata


Stateful = nn.Module | torch.optim.Optimizer


def pack(parts: Mapping[str, Stateful]) -> dict[str, Tensor]:
    """The tensors of modules and optimisers, each under its part's name: ``model.entities``, ``optimizer.0.step``."""
    tensors: dict[str, Tensor] = {}
    for name, part in parts.items():
        if isinstance(part, nn.Module):
            tensors |= {f"{name}.{key}": value for key, value in part.state_dict().items()}
        else:
            for number, state in part.state_dict()["state"].items():
                tensors |= {f"{name}.{number}.{key}": value for key, value in state.items() if value is not None}
    return tensors


def unpack(parts: Mapping[str, Stateful], tensors: Mapping[str, Tensor]) -> None:
    """Put what `pack` made back into modules and optimisers."""
    for name, part in parts.items():
        own = {key.removeprefix(f"{name}."): value for key, value in tensors.items() if key.startswith(f"{name}.")}
        if isinstance(part, nn.Module):
            part.load_state_dict(own)
            continue
        states: dict[int, dict[str, Tensor]] = {}
        for key, value in own.items():
            number, _, field = key.partition(".")
            states.setdefault(int(number), {})[field] = value
        part.load_state_dict({"state": states, "param_groups": part.state_dict()["param_groups"]})
