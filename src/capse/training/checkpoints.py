"""Checkpoints: everything that a killed run needs to end as if it had not been killed.

Random numbers are drawn from generators seeded by (seed, epoch, step), so no generator state is stored: what the
learner says is its state, and the position, are all there is.
"""

from __future__ import annotations

import time
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


@dataclass(frozen=True)
class RowsHere:
    """The tensors of a state that have a row for each entity, of which a process has some."""

    names: frozenset[str]
    own: range


class Checkpoints:
    """``last.safetensors`` to resume from and ``best.safetensors``, the weights of the best validated epoch.

    Where processes share the rows of a table, each writes its own (``last-1700000000-2.safetensors``) before the first
    writes the rest, and in it which rows are where: it is the manifest, and takes the place of the one before at once.
    Any number of processes can go on from it, whether each of them has all rows or a share.
    """

    def __init__(self, folder: Path, fingerprint: str, group: Group | None = None) -> None:
        """``fingerprint`` identifies data and settings; a checkpoint of other ones is refused.

        All of a ``group`` have the same state but for ``rows``, and the first writes it.
        """
        self.rows: RowsHere | None = None
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
        shared = self.rows.names if self.rows else frozenset()
        files = self._write_rows(path, {name: x for name, x in tensors.items() if name in shared})
        if self.group.leads:
            rest = {name: x for name, x in tensors.items() if name not in shared}
            placed = {"rows": files} if files else {}
            save_tensors(path, rest, {"fingerprint": self.fingerprint, **metadata, **placed})
            for old in path.parent.glob(f"{path.stem}-*.safetensors"):
                if old.name not in files:
                    old.unlink()

    def _write_rows(self, path: Path, tensors: dict[str, Tensor]) -> list[str]:
        """Write this process's rows; returns the files of all processes, in the order of rows."""
        if self.rows is None:
            return []
        stamp = self.group.most(time.time_ns() if self.group.leads else 0)[0]
        files = [f"{path.stem}-{stamp}-{rank}.safetensors" for rank in range(self.group.size)]
        own = {"rows": [self.rows.own.start, self.rows.own.stop]}
        save_tensors(path.with_name(files[self.group.rank]), tensors, {"fingerprint": self.fingerprint, **own})
        self.group.wait()
        for file in files:
            if self.group.leads and not path.with_name(file).is_file():
                raise RunError(f"process 0 does not see {file} in {path.parent}", "put --out where all nodes see it")
        return files

    def _read(self, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, metadata = self._read_file(path)
        if "rows" in metadata:
            tensors |= self._read_rows([path.with_name(name) for name in metadata["rows"]])
        elif self.rows is not None:
            own = slice(self.rows.own.start, self.rows.own.stop)
            tensors = {name: x[own].clone() if name in self.rows.names else x for name, x in tensors.items()}
        return tensors, metadata

    def _read_rows(self, paths: list[Path]) -> dict[str, Tensor]:
        """This process's rows of all tensors, or all rows, of files that have some each."""
        found: dict[str, list[Tensor]] = {}
        for path in paths:
            tensors, metadata = self._read_file(path)
            first, last = metadata["rows"]
            own = self.rows.own if self.rows else range(last)
            start, stop = max(own.start, first) - first, min(own.stop, last) - first
            for name, x in tensors.items():
                found.setdefault(name, []).append(x[start : max(start, stop)].clone())
        return {name: torch.cat(parts) for name, parts in found.items()}

    def _read_file(self, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
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
