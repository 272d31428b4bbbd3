"""Where models are right and where not: by side, relation category, frequency of the answer and relation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capse.reports import figures
from capse.reports.figures import RELATIONS_SHOWN
from capse.reports.html import Markup, details, element, figure, section, table
from capse.reports.recorded import RecordedRun, evaluations
from capse.reports.svg import inline_svg
from capse.reports.words import METRICS_HEADER, metric_cells

Runs = Sequence[RecordedRun]


def breakdowns(runs: Runs) -> Markup:
    """Where the models are good and where they are not; realistic figures throughout."""
    recorded, names = evaluations(runs), runs[0].relation_names
    sides = {
        run.name: [(side, *metric_cells(run.evaluation.metrics[side]["realistic"])) for side in ("head", "tail")]
        for run in runs
    }
    most = min(RELATIONS_SHOWN, len(runs[0].evaluation.breakdowns["relation"]))
    drawn = {
        "category": (
            figures.by_category(recorded),
            "By relation category. In an M-1 relation a tail has many heads, in a 1-M relation a head many tails; many "
            "is 1.5 or more on average. In brackets, the share of the test triples.",
        ),
        "frequency": (
            figures.by_frequency(recorded),
            "By how often the true answer occurs in training. In brackets, the share of the questions.",
        ),
        "relation": (
            figures.by_relation(recorded, names),
            f"By relation: the {most} with most test triples. In brackets, their share.",
        ),
    }
    return section(
        "Where they are right and where not",
        table("Realistic, by the side asked for", ("side", *METRICS_HEADER), *sides.items()),
        element(
            "div",
            *(
                figure(inline_svg(drawing, f"Bar chart: realistic MRR by {kind} and model", kind), caption)
                for kind, (drawing, caption) in drawn.items()
            ),
            class_="grid",
        ),
        details("By relation category, as a table", _breakdown_table(runs, "category", ("head", "tail"))),
        details("By frequency of the answer, as a table", _breakdown_table(runs, "frequency", ("both",))),
        details("By relation, as a table", _breakdown_table(runs, "relation", ("head", "tail"), names)),
    )


def _breakdown_table(runs: Runs, kind: str, sides: Sequence[str], names: Mapping[str, str] | None = None) -> Markup:
    """Realistic MRR and Hits@10 of each group, largest share first where the groups have ``names``."""
    groups = runs[0].evaluation.breakdowns[kind]
    labels = sorted(groups, key=lambda label: -groups[label]["share"]) if names else list(groups)
    unit = "queries" if kind == "frequency" else "triples"
    header = [kind, unit, "share %"]
    for run in runs:
        for side in sides:
            header += [f"{run.name}, {side}: {metric}" for metric in ("MRR", "Hits@10 %")]
    rows = []
    for label in labels:
        row = [(names or {}).get(label, label), f"{groups[label][unit]:,}", f"{100 * groups[label]['share']:.1f}"]
        for run in runs:
            for side in sides:
                values = run.evaluation.breakdowns[kind][label][side]["realistic"]
                row += [f"{values['mrr']:.4f}", f"{100 * values['hits@10']:.1f}"]
        rows.append(row)
    return table(f"Realistic, by {kind}", header, ("", rows))
