"""The sections of a report, each a function of recorded runs; the first run is what the others are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from capse.evaluation.intervals import RESAMPLES
from capse.evaluation.paired import compare
from capse.reports import figures
from capse.reports.examples import GUESSES
from capse.reports.figures import POLICIES
from capse.reports.html import Markup, definitions, details, element, figure, join, section, table
from capse.reports.recorded import RecordedRun, evaluations
from capse.reports.svg import inline_svg
from capse.reports.words import (
    METRICS_HEADER,
    choice_sentence,
    difference_sentence,
    interval_cell,
    metric_cells,
    origin_pairs,
    ties_sentence,
)

Runs = Sequence[RecordedRun]


def results(runs: Runs) -> Markup:
    """All figures of all models under all tie policies, and what ties there are."""
    rows = {
        run.name: [
            (policy, *metric_cells(run.evaluation.metrics["both"][policy]), interval_cell(run.evaluation, policy))
            for policy in POLICIES
        ]
        for run in runs
    }
    header = ("ties", *METRICS_HEADER, "95 % interval of MRR")
    warnings = [f"{run.name}: {warning}" for run in runs for warning in run.evaluation.warnings]
    sentences = [ties_sentence(run.name, run.tied) for run in runs]
    if runs[0].evaluation.triples > 1:
        sentences += [
            difference_sentence(run.name, runs[0].name, compare(run.reciprocal_ranks, runs[0].reciprocal_ranks))
            for run in runs[1:]
        ]
    return section(
        "Results",
        table("Test set, both sides, filtered ranks", header, *rows.items(), emphasis="realistic"),
        *(element("p", warning, class_="note") for warning in warnings),
        element("ul", *(element("li", sentence) for sentence in sentences)),
        figure(
            inline_svg(figures.tie_policies(evaluations(runs)), "Bar chart: MRR by tie policy and model", "ties"),
            "MRR under each way to count ties; the line is the 95 % interval of the realistic figure.",
        ),
    )


def protocol(runs: Runs) -> Markup:
    """How the figures were made, in plain words."""
    graph, evaluation = runs[0].graph, runs[0].evaluation
    seeds = ", ".join(f"{run.name} {run.recipe['training']['seed']}" for run in runs)
    points = [
        f"Each of the {evaluation.triples:,} test triples asks two questions: which head, and which tail? All "
        f"{graph.entities:,} entities are candidates, and what counts is the rank of the true one.",
        "Ranks are filtered: other answers that are known to be true, from whichever split, do not compete.",
        "A tie is a wrong candidate with exactly the true one's score. Optimistic puts ties behind the true answer, "
        "pessimistic before it, realistic takes the mean of these two ranks, and expected averages each metric over "
        "all orders of the ties. Realistic is the result; the others show how much ties could change it.",
        "MR is the mean rank (lower is better), MRR the mean of 1/rank, Hits@k the share of ranks up to k.",
        *(f"{run.name}: {_choice(run)}" for run in runs),
        f"Seeds: {seeds}. Each model was trained once; another seed would move its figures.",
        f"Intervals come from {RESAMPLES:,} bootstrap samples of the test triples: they say what another test set of "
        "the same kind might give, not what another seed might.",
        f"{evaluation.unseen_triples:,} test triples have an entity that training never saw; they are included.",
    ]
    return section("How this was measured", element("ul", *(element("li", point) for point in points)))


def examples(runs: Runs) -> Markup:
    """Questions from the test set with each model's best answers."""
    groups = []
    for asked in zip(*(run.examples for run in runs), strict=True):
        rows = []
        for run, example in zip(runs, asked, strict=True):
            guesses = [f"{guess.name} {'✓' if guess.true else '✗'}" for guess in example.guesses]
            rows.append((run.name, *guesses, *[""] * (GUESSES - len(guesses)), f"{example.rank:g}"))
        groups.append((f"{asked[0].question} (held out: {asked[0].answer})", rows))
    note = (
        "One test question for each of the most frequent relations, drawn with a fixed seed, whatever the models make "
        "of it. Answers that training contains are left out. ✓ is a fact of the graph that training did not contain, ✗ "
        "is not in the graph. The rank is that of the answer held out, other true answers not competing."
    )
    header = ("model", *("first", "second", "third")[:GUESSES], "rank")
    return section(
        "Examples",
        element("p", note),
        element("div", table("Best new answers", header, *groups), class_="words"),
    )


def training(runs: Runs) -> Markup:
    """Learning curves, where there is anything to draw."""
    drawn = [
        figure(
            inline_svg(
                figures.learning_curves(run.history),
                f"Line charts: training loss and validation MRR of {run.name} by epoch",
                f"curves{number}",
            ),
            f"{run.name}: {_choice(run)}",
        )
        for number, run in enumerate(runs)
        if run.history
    ]
    note = (
        "Below each loss is the realistic MRR on the validation set; the large dot is the epoch that was kept. A band "
        "around the line, where one is to be seen, reaches from the pessimistic to the optimistic MRR."
    )
    return section("Training", element("p", note), element("div", *drawn, class_="grid")) if drawn else Markup("")


def data(runs: Runs) -> Markup:
    """The graph that all runs share."""
    graph = runs[0].graph
    splits = [
        (split, f"{count:,}", f"{graph.unseen.get(split, 0):,}", f"{graph.unseen_relation.get(split, 0):,}")
        for split, count in graph.triples.items()
    ]
    categories = [
        (name, f"{count:,}", f"{100 * graph.category_test_share[name]:.1f}")
        for name, count in graph.category_relations.items()
    ]
    return section(
        "Data",
        element("p", f"{graph.name}: {graph.entities:,} entities and {graph.relations:,} relations."),
        table("Triples", ("split", "triples", "with an unseen entity", "with an unseen relation"), ("", splits)),
        table("Relation categories", ("category", "relations", "% of test triples"), ("", categories)),
    )


def origins(runs: Runs, report: Mapping[str, Any]) -> Markup:
    """Every setting of every run; where and when it was trained, and the report written."""
    parts = []
    for run in runs:
        settings = yaml.safe_dump(run.recipe, sort_keys=False, allow_unicode=True)
        parts += [
            element("h3", run.name),
            definitions([("run", str(run.folder)), *origin_pairs(run.results)]),
            details("Every setting", element("pre", settings)),
        ]
    parts += [element("h3", "This report"), definitions(origin_pairs(report))]
    return section("Settings and origin", join(parts))


def _choice(run: RecordedRun) -> str:
    return choice_sentence(run.results, run.recipe["validation"])
