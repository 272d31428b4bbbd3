"""What people see: progress on standard error, tables on standard output."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from capse.cli.output import printable
from capse.experiments.engine import Listener, StepReport

errors = Console(stderr=True, highlight=False)

_REFRESH_SECONDS = 0.1


def say(text: str) -> None:
    """Print a line on standard error, above the bar if there is one."""
    errors.print(printable(text), markup=False, soft_wrap=True)


def show_table(title: str, columns: Mapping[str, str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table on standard output; ``columns`` are headings, and 'left' or 'right' for each."""
    table = Table(title=Text(printable(title)) if title else None, title_justify="left")
    for heading, side in columns.items():
        table.add_column(heading, justify="left" if side == "left" else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console(highlight=False).print(table)


def show_metrics(title: str, rows: Mapping[str, Mapping[str, float]]) -> None:
    """Print metrics for people: one row per name, percentages for Hits."""
    columns = {"": "left"} | dict.fromkeys(("MR", "MRR", "Hits@1", "Hits@3", "Hits@10"), "right")
    cells = (
        (name, f"{m['mr']:,.1f}", f"{m['mrr']:.4f}", *(f"{100 * m[f'hits@{k}']:.1f}" for k in (1, 3, 10)))
        for name, m in rows.items()
    )
    show_table(title, columns, cells)


class _Rate(ProgressColumn):
    """Examples a second, by the estimate that the time left is from: the two cannot contradict each other.

    ``rate`` is what examples are called and how many a step has; without it the text ``speed`` is shown.
    """

    def render(self, task: Task) -> Text:
        unit, each = task.fields.get("rate", ("", 0.0))
        return Text(f"{each * task.speed:,.0f} {unit}/s" if each and task.speed else task.fields["speed"])


def progress_bar() -> Progress:
    """A bar with speed and time left; on anything but a terminal it stays silent."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        _Rate(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that is told how much is done, and of how much."""
    with progress_bar() as bar:
        task = bar.add_task(what, total=None, speed="")
        yield lambda done, total: bar.update(task, completed=done, total=total)


class BarDisplay:
    """A bar while something long runs, and lines above it."""

    def __init__(self, what: str) -> None:
        self.bar = progress_bar()
        self.task = self.bar.add_task(what, total=None, speed="")

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def message(self, text: str) -> None:
        say(text)


class TrainingProgress(BarDisplay, Listener):
    """Shows a training: a bar over all epochs, and a line for each validation."""

    unit = "triples"  # what an example is

    def __init__(self, epochs: int, metric: str) -> None:
        super().__init__("training")
        self.epochs = epochs
        self.metric = metric
        self.shown = time.monotonic()
        self.steps = self.examples = 0
        self.told = False

    def prepare(self, what: str, done: int, total: int) -> None:
        self.bar.update(self.task, description=what, completed=done, total=total)

    def step(self, report: StepReport) -> None:
        self.steps, self.examples = self.steps + 1, self.examples + report.examples
        self.epochs = report.epochs
        now = time.monotonic()
        if now - self.shown < _REFRESH_SECONDS and report.step < report.steps:
            return
        done = (report.epoch - 1) * report.steps + report.step
        self.bar.update(
            self.task,
            description=f"epoch {report.epoch} of {self.epochs}",
            completed=done,
            total=self.epochs * report.steps,
            rate=(self.unit, self.examples / self.steps),
        )
        self.shown = now

    def epoch(self, record: dict[str, Any]) -> None:
        if "validation" in record:
            if not self.told:
                say(f"validation ranks are filtered by train and valid, not by test; {self.metric} chooses the epoch")
                self.told = True
            realistic = record["validation"]["realistic"]
            best = " (best so far)" if record["best_epoch"] == record["epoch"] else ""
            say(
                f"epoch {record['epoch']}: loss {record['loss']:.4f}, validation MRR {realistic['mrr']:.4f}, "
                f"Hits@10 {100 * realistic['hits@10']:.1f} %{best}"
            )
        elif not errors.is_terminal and record["epoch"] % max(1, self.epochs // 10) == 0:
            say(f"epoch {record['epoch']} of {self.epochs}: loss {record['loss']:.4f}")


class RefiningProgress(TrainingProgress):
    """The same where motifs are fitted; how many epochs that takes is said by the first step."""

    unit = "questions"

    def __init__(self) -> None:
        super().__init__(epochs=0, metric="mrr")
