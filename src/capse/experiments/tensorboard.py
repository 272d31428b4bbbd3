"""What TensorBoard shows of a training, in the run's folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from capse.errors import MissingExtraError


class Board:
    """Loss, learning rate, speed and every validated metric, epoch by epoch."""

    def __init__(self, folder: Path) -> None:
        self.writer: Any = require_tensorboard()(str(folder))

    def add(self, record: Mapping[str, Any]) -> None:
        for key in ("loss", "learning_rate", "examples_per_second"):
            self.writer.add_scalar(f"training/{key}", record[key], record["epoch"])
        for name, value in _numbers("validation", record.get("validation", {})):
            self.writer.add_scalar(name, value, record["epoch"])
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()


def _numbers(name: str, values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _numbers(f"{name}/{key}", value)
        else:
            yield f"{name}/{key}", value


def require_tensorboard() -> Any:
    """The class that writes what TensorBoard reads."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtraError("training.tensorboard", "tensorboard") from error
    return SummaryWriter
