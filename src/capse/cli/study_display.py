"""What people see of a study: progress on standard error, a table of its trials on standard output."""

from __future__ import annotations

from collections.abc import Sequence

from capse.cli.display import BarDisplay, say, show_table
from capse.experiments.halving import HalvingListener
from capse.experiments.study import Outcome
from capse.experiments.tune import StudyListener
from capse.reports.study import short


class StudyProgress(BarDisplay, StudyListener, HalvingListener):
    """Shows a study: a bar over all trials, or over its time, with the best so far, and a line for each trial."""

    def __init__(self) -> None:
        super().__init__("trials")

    def progress(self, done: float, total: int) -> None:
        self.bar.update(self.task, description=f"{int(done)} of {total} trials", completed=done, total=total)

    def time(self, spent: float, total: float, what: str) -> None:
        self.bar.update(self.task, description=what, completed=spent, total=total)

    def trial(self, outcome: Outcome, best: Outcome) -> None:
        if outcome.value is None:
            self.message(f"trial {outcome.trial} failed: {outcome.error}")
        else:
            settings = ", ".join(f"{key}={short(value)}" for key, value in outcome.settings.items())
            mark = " (best so far)" if best == outcome else ""
            self.message(f"trial {outcome.trial}: {settings}: {outcome.metric} {outcome.value:.4f}{mark}")
        if best.value is not None:
            self.bar.update(self.task, speed=f"best {best.metric} {best.value:.4f}")


_WIDE = 5  # so many settings are too many columns, unless trials differ in them


def show_outcomes(outcomes: Sequence[Outcome]) -> None:
    """The trials as a table, in the order given."""
    told = outcomes[0].settings
    names = [name for name in told if len(told) < _WIDE or any(o.settings[name] != told[name] for o in outcomes)]
    headings = (name.replace(".", ".\n") for name in names)  # they are long, and their columns narrow
    columns = ("trial", *headings, outcomes[0].metric, "best\nepoch", "epochs", "seconds")
    show_table("", dict.fromkeys(columns, "right"), (_cells(outcome, names) for outcome in outcomes))


def _cells(outcome: Outcome, names: Sequence[str]) -> list[str]:
    end = ["failed", "", "", ""]
    if outcome.value is not None:
        end = [f"{outcome.value:.4f}", str(outcome.best_epoch), str(outcome.epochs), f"{outcome.seconds:.1f}"]
    return [str(outcome.trial), *(short(outcome.settings[name]) for name in names), *end]


def show_failures(outcomes: Sequence[Outcome]) -> None:
    """One line for each trial that failed, when nothing else is under way."""
    for outcome in outcomes:
        if outcome.value is None:
            say(f"trial {outcome.trial} failed: {outcome.error}")
