"""MLflow and Weights & Biases, told of a training through the listener that everything else is told by.

Another tracker is a `Listener` with ``begin``, ``epoch`` and ``end``, named in the entry point group
``capse.trackers``. Both write into the run's folder unless their own environment variables name a server: nothing
leaves the machine unasked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from capse.errors import MissingExtraError
from capse.experiments.listening import Listener
from capse.registry import Registry

TRACKERS: Registry[type[Listener]] = Registry(
    "tracker",
    "capse.trackers",
    {"mlflow": "capse.experiments.trackers:MLflow", "wandb": "capse.experiments.trackers:WeightsAndBiases"},
)
PROJECT = "capse"
_LONGEST = 500  # characters of a parameter that MLflow takes


def trackers(names: Sequence[str]) -> list[Listener]:
    """The trackers of these names; an error says which package one of them lacks."""
    return [TRACKERS[name]() for name in names]


class MLflow(Listener):
    """Settings as parameters, every number of an epoch as a metric; a folder unless ``MLFLOW_TRACKING_URI`` is set."""

    def __init__(self) -> None:
        try:
            import mlflow
        except ImportError as error:
            raise MissingExtraError("the tracker mlflow", "trackers") from error
        self._mlflow: Any = mlflow

    def begin(self, folder: Path, settings: Mapping[str, Any]) -> None:
        if not os.environ.get("MLFLOW_TRACKING_URI"):
            place = folder / "tracking"
            place.mkdir(exist_ok=True)
            self._mlflow.set_tracking_uri(f"sqlite:///{place / 'mlflow.db'}")
        self._mlflow.set_experiment(PROJECT)
        self._mlflow.start_run(run_name=folder.name)
        self._mlflow.log_params({key: str(value)[:_LONGEST] for key, value in flat(settings)})

    def epoch(self, record: dict[str, Any]) -> None:
        # MLflow allows no @ in a name.
        numbers = {key.replace("@", "_at_"): value for key, value in flat_numbers(record)}
        self._mlflow.log_metrics(numbers, step=record["epoch"])

    def end(self, results: Mapping[str, Any] | None) -> None:
        self._mlflow.end_run("KILLED" if results is None else "FINISHED")


class WeightsAndBiases(Listener):
    """The same for Weights & Biases; offline, in the run's folder, unless ``WANDB_MODE`` says otherwise."""

    def __init__(self) -> None:
        try:
            import wandb
        except ImportError as error:
            raise MissingExtraError("the tracker wandb", "trackers") from error
        self._wandb: Any = wandb
        self._run: Any = None

    def begin(self, folder: Path, settings: Mapping[str, Any]) -> None:
        place = folder / "tracking"
        place.mkdir(exist_ok=True)
        mode = os.environ.get("WANDB_MODE", "offline")
        self._run = self._wandb.init(
            project=PROJECT, name=folder.name, dir=str(place), mode=mode, config=dict(settings), reinit="create_new"
        )

    def epoch(self, record: dict[str, Any]) -> None:
        self._run.log(dict(flat_numbers(record)), step=record["epoch"])

    def end(self, results: Mapping[str, Any] | None) -> None:
        if self._run is not None:
            self._run.finish(exit_code=1 if results is None else 0)


def flat(values: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings or records as dotted names.

    >>> list(flat({"model": {"dim": 8}, "data": None}))
    [('model.dim', 8), ('data', None)]
    """
    for key, value in values.items():
        dotted = f"{name}.{key}" if name else str(key)
        if isinstance(value, Mapping):
            yield from flat(value, dotted)
        else:
            yield dotted, value


def flat_numbers(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a record, by dotted names."""
    for key, value in flat(record):
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield key, value
