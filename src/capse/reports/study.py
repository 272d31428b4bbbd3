"""A page about a study: how its trials did on the validation set, as a table and as curves over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from capse.experiments.study import Outcome, StudyFolder
from capse.reports.figures import COLOURS, INK, STYLE
from capse.reports.pages import render_page
from capse.reports.svg import inline_svg
from capse.runs.atomic import write_text
from capse.runs.records import provenance

Histories = Mapping[int, Sequence[Mapping[str, Any]]]  # trial -> the lines of its metrics.jsonl

PAGE = "study.html"
_END = ("best epoch", "epochs", "seconds")


def write_study_page(study: StudyFolder, outcomes: Sequence[Outcome]) -> Path:
    """Write ``study.html`` into a study's folder, given how its trials ended, best first."""
    histories = {outcome.trial: study.run(outcome.trial).read_metrics() for outcome in outcomes}
    settings = list(outcomes[0].settings)
    page = render_page(
        "study.html.j2",
        best=outcomes[0],
        header=["trial", *settings, outcomes[0].metric, *_END],
        rows=[("", [_row(outcome, settings) for outcome in outcomes])],
        curves=inline_svg(trial_curves(histories, outcomes[0].trial), "Validation MRR over seconds", "trials"),
        recipe=study.best.read_text(encoding="utf-8"),
        provenance=provenance(),
    )
    write_text(study.path / PAGE, page)
    return study.path / PAGE


@rc_context(STYLE)
def trial_curves(histories: Histories, best: int) -> Figure:
    """Validation MRR of every trial over the seconds that it was trained for; the best one stands out."""
    figure = Figure(figsize=(7.2, 3.6))
    axes = figure.subplots()
    for trial, history in sorted(histories.items(), key=lambda item: item[0] == best):
        validated = [line for line in history if "validation" in line]
        seconds = [line["seconds"] for line in validated]
        values = [line["validation"]["realistic"]["mrr"] for line in validated]
        if trial == best:
            axes.plot(
                seconds,
                values,
                color=COLOURS[0],
                linewidth=2,
                marker="o",
                markersize=4,
                label=f"trial {trial}, the best",
            )
        else:
            axes.plot(seconds, values, color=INK, alpha=0.35, linewidth=1, marker=".", markersize=3)
    axes.set_xlabel("seconds of training")
    axes.set_ylabel("validation MRR")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    axes.legend(loc="lower right")
    return figure


def _row(outcome: Outcome, settings: Sequence[str]) -> list[str]:
    end = ["failed", "", "", ""]
    if outcome.value is not None:
        end = [f"{outcome.value:.4f}", str(outcome.best_epoch), str(outcome.epochs), f"{outcome.seconds:.1f}"]
    return [str(outcome.trial), *(short(outcome.settings[name]) for name in settings), *end]


def short(value: Any) -> str:
    """
    >>> short(0.0010000001), short("complex")
    ('0.001', 'complex')
    """
    return f"{value:.4g}" if isinstance(value, float) else str(value)
