"""One HTML file about one or more runs on the same data; the first is what the others are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from capse.evaluation.intervals import RESAMPLES
from capse.evaluation.paired import compare
from capse.reports import figures
from capse.reports.examples import GUESSES
from capse.reports.figures import POLICIES, RELATIONS_SHOWN
from capse.reports.pages import render_page
from capse.reports.recorded import RecordedRun, evaluations
from capse.reports.svg import inline_svg
from capse.reports.text import METRICS_HEADER, choice_sentence, difference_sentence, metric_cells, ties_sentence
from capse.runs.atomic import write_text
from capse.runs.records import provenance

Runs = Sequence[RecordedRun]
Groups = list[tuple[str, list[tuple[str, ...]]]]  # headings, and the rows below each


def write_report(runs: Runs, path: str | Path) -> None:
    """Write the report, whole or not at all."""
    write_text(path, render(runs))


def render(runs: Runs) -> str:
    """The report as one HTML document that needs nothing else."""
    graph, evaluation, names = runs[0].graph, runs[0].evaluation, runs[0].relation_names
    sides = {"category": ("head", "tail"), "frequency": ("both",), "relation": ("head", "tail")}
    return render_page(
        "report.html.j2",
        runs=runs,
        graph=graph,
        evaluation=evaluation,
        metrics_header=list(METRICS_HEADER),
        by_policy=[(run.name, [_policy_row(run, policy) for policy in POLICIES]) for run in runs],
        by_side=[(run.name, [_side_row(run, side) for side in ("head", "tail")]) for run in runs],
        breakdowns={kind: _breakdown(runs, kind, of, names) for kind, of in sides.items()},
        sentences=_sentences(runs),
        examples=_examples(runs),
        drawings=_drawings(runs),
        choices={run.name: choice_sentence(run.results, run.recipe["validation"]) for run in runs},
        splits=[
            (split, f"{count:,}", f"{graph.unseen.get(split, 0):,}", f"{graph.unseen_relation.get(split, 0):,}")
            for split, count in graph.triples.items()
        ],
        categories=[
            (name, f"{count:,}", f"{100 * graph.category_test_share[name]:.1f}")
            for name, count in graph.category_relations.items()
        ],
        relations_shown=min(RELATIONS_SHOWN, len(evaluation.breakdowns["relation"])),
        resamples=RESAMPLES,
        provenance=provenance(),
    )


def _policy_row(run: RecordedRun, policy: str) -> tuple[str, ...]:
    low, high = run.evaluation.intervals["both"][policy]["mrr"]
    return policy, *metric_cells(run.evaluation.metrics["both"][policy]), f"{low:.4f} to {high:.4f}"


def _side_row(run: RecordedRun, side: str) -> tuple[str, ...]:
    return side, *metric_cells(run.evaluation.metrics[side]["realistic"])


def _sentences(runs: Runs) -> list[str]:
    """What ties there are, and whether the runs differ by more than luck."""
    first, others = runs[0], runs[1:] if runs[0].evaluation.triples > 1 else ()
    found = [(run, compare(run.reciprocal_ranks, first.reciprocal_ranks)) for run in others]
    differences = [difference_sentence(run.name, first.name, comparison) for run, comparison in found]
    return [*(ties_sentence(run.name, run.tied) for run in runs), *differences]


def _examples(runs: Runs) -> Groups:
    """Questions from the test set with each model's best answers."""
    groups: Groups = []
    for asked in zip(*(run.examples for run in runs), strict=True):
        rows = []
        for run, example in zip(runs, asked, strict=True):
            guesses = [f"{guess.name} {'✓' if guess.true else '✗'}" for guess in example.guesses]
            rows.append((run.name, *guesses, *[""] * (GUESSES - len(guesses)), f"{example.rank:g}"))
        groups.append((f"{asked[0].question} (held out: {asked[0].answer})", rows))
    return groups


def _breakdown(runs: Runs, kind: str, sides: Sequence[str], names: Mapping[str, str]) -> dict[str, Any]:
    """Realistic MRR and Hits@10 of each group; relations with most triples first."""
    groups = runs[0].evaluation.breakdowns[kind]
    labels = sorted(groups, key=lambda label: -groups[label]["share"]) if kind == "relation" else list(groups)
    unit = "queries" if kind == "frequency" else "triples"
    columns = [(run, side) for run in runs for side in sides]
    header = [kind, unit, "share %"]
    header += [f"{run.name}, {side}: {metric}" for run, side in columns for metric in ("MRR", "Hits@10 %")]
    rows = []
    for label in labels:
        name = names.get(label, label) if kind == "relation" else label
        row = [name, f"{groups[label][unit]:,}", f"{100 * groups[label]['share']:.1f}"]
        for run, side in columns:
            values = run.evaluation.breakdowns[kind][label][side]["realistic"]
            row += [f"{values['mrr']:.4f}", f"{100 * values['hits@10']:.1f}"]
        rows.append(row)
    return {"header": header, "rows": rows}


def _drawings(runs: Runs) -> dict[str, Any]:
    """SVGs by name; learning curves by run, where there is anything to draw."""
    recorded, names = evaluations(runs), runs[0].relation_names

    def bars(kind: str, drawing: Any) -> Markup:
        return inline_svg(drawing, f"Bar chart: realistic MRR by {kind} and model", kind)

    return {
        "ties": inline_svg(figures.tie_policies(recorded), "Bar chart: MRR by tie policy and model", "ties"),
        "category": bars("category", figures.by_category(recorded)),
        "frequency": bars("frequency", figures.by_frequency(recorded)),
        "relation": bars("relation", figures.by_relation(recorded, names)),
        "curves": {
            run.name: inline_svg(
                figures.learning_curves(run.history),
                f"Line charts: training loss and validation MRR of {run.name} by epoch",
                f"curves{number}",
            )
            for number, run in enumerate(runs)
            if run.history
        },
    }
