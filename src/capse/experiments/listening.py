"""Who is told of a training: a bar on the terminal, a tracker, a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from capse.training.loop import StepReport as StepReport


class Listener:
    """What a training tells whoever watches; override what is of interest.

    `StopTraining`, raised in ``step`` or ``epoch``, ends the training as if its epochs were over: the run is finished,
    and can be gone on with.
    """

    def begin(self, folder: Path, settings: Mapping[str, Any]) -> None:
        """The training begins, or goes on, in a folder; ``settings`` are all sections of its recipe."""

    def message(self, text: str) -> None:
        """A line about what is being done."""

    def prepare(self, what: str, done: int, total: int) -> None:
        """So much is done of what comes before the first step."""

    def step(self, report: StepReport) -> None:
        """A step has ended."""

    def epoch(self, record: dict[str, Any]) -> None:
        """An epoch has ended; ``record`` is its line of metrics.jsonl."""

    def end(self, results: Mapping[str, Any] | None) -> None:
        """The training has ended, with these results; None where it was stopped or failed."""


class Listeners(Listener):
    """Several that are told in turn."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self.listeners = list(listeners)

    def begin(self, folder: Path, settings: Mapping[str, Any]) -> None:
        for listener in self.listeners:
            listener.begin(folder, settings)

    def message(self, text: str) -> None:
        for listener in self.listeners:
            listener.message(text)

    def prepare(self, what: str, done: int, total: int) -> None:
        for listener in self.listeners:
            listener.prepare(what, done, total)

    def step(self, report: StepReport) -> None:
        for listener in self.listeners:
            listener.step(report)

    def epoch(self, record: dict[str, Any]) -> None:
        for listener in self.listeners:
            listener.epoch(record)

    def end(self, results: Mapping[str, Any] | None) -> None:
        for listener in self.listeners:
            listener.end(results)
