"""What people see: progress on standard error, tables on standard output."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from capse.experiments.fit import Listener, StepReport

errors = Console(stderr=True, highlight=False)

_REFRESH_SECONDS = 0.1


def progress_bar() -> Progress:
    """A bar with speed and time left; on anything but a terminal it stays silent."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )


class TrainingProgress(Listener):
    """Shows a training: a bar over all epochs, and a line for each validation."""

    unit = "triples"  # what an example is

    def __init__(self, epochs: int, metric: str) -> None:
        self.epochs = epochs
        self.metric = metric
        self.bar = progress_bar()
        self.task = self.bar.add_task("training", total=None, speed="")
        self.shown = time.monotonic()
        self.examples = 0

    def __enter__(self) -> TrainingProgress:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def message(self, text: str) -> None:
        errors.print(text, markup=False, soft_wrap=True)

    def step(self, report: StepReport) -> None:
        self.examples += report.examples
        now = time.monotonic()
        if now - self.shown < _REFRESH_SECONDS and report.step < report.steps:
            return
        done = (report.epoch - 1) * report.steps + report.step
        self.bar.update(
            self.task,
            description=f"epoch {report.epoch} of {self.epochs}",
            completed=done,
            total=self.epochs * report.steps,
            speed=f"{self.examples / max(now - self.shown, 1e-9):,.0f} {self.unit}/s",
        )
        self.shown, self.examples = now, 0

    def epoch(self, record: dict[str, Any]) -> None:
        if "validation" in record:
            realistic = record["validation"]["realistic"]
            best = " (best so far)" if record["best_epoch"] == record["epoch"] else ""
            errors.print(
                f"epoch {record['epoch']}: loss {record['loss']:.4f}, validation MRR {realistic['mrr']:.4f}, "
                f"Hits@10 {100 * realistic['hits@10']:.1f} %{best}",
                markup=False,
                soft_wrap=True,
            )
        elif not errors.is_terminal and record["epoch"] % max(1, self.epochs // 10) == 0:
            errors.print(
                f"epoch {record['epoch']} of {self.epochs}: loss {record['loss']:.4f}", markup=False, soft_wrap=True
            )


def metrics_table(title: str, rows: Mapping[str, Mapping[str, float]]) -> Table:
    """Metrics for people: one row per name, percentages for Hits."""
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for column in ("MR", "MRR", "Hits@1", "Hits@3", "Hits@10"):
        table.add_column(column, justify="right")
    for name, values in rows.items():
        hits = (f"{100 * values[f'hits@{k}']:.1f}" for k in (1, 3, 10))
        table.add_row(name, f"{values['mr']:,.1f}", f"{values['mrr']:.4f}", *hits)
    return table
