"""One HTML file about one or more runs on the same data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from capse.reports import sections
from capse.reports.breakdowns import breakdowns
from capse.reports.html import element, page
from capse.reports.recorded import RecordedRun
from capse.runs.atomic import write_text
from capse.runs.records import provenance


def write_report(runs: Sequence[RecordedRun], path: str | Path) -> None:
    """Write the report, whole or not at all."""
    write_text(path, render(runs))


def render(runs: Sequence[RecordedRun]) -> str:
    """The report as one HTML document that needs nothing else."""
    figures = []
    for run in runs:
        realistic = run.evaluation.metrics["both"]["realistic"]
        figures.append(f"{run.name} MRR {realistic['mrr']:.4f}, Hits@10 {100 * realistic['hits@10']:.1f} %")
    return page(
        f"{', '.join(run.name for run in runs)} on {runs[0].graph.name}",
        element("p", f"Link prediction on the test set, filtered, both sides, realistic: {'; '.join(figures)}."),
        sections.results(runs),
        sections.examples(runs),
        breakdowns(runs),
        sections.training(runs),
        sections.protocol(runs),
        sections.data(runs),
        sections.origins(runs, provenance()),
    )
