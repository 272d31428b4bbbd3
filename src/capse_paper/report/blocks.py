"""Rows of data as tables for people: the paper's figure, then ours under three ways to count ties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from capse_paper.findings.claims import CLOSE, Claim, Comparison
from capse_paper.findings.paper import DATASETS
from capse_paper.findings.rows import Row
from capse_paper.recorded.grids import RecordedGrid
from capse_paper.report.block import NAMES, NOT_RECORDED, Block, cell, number
from capse_paper.report.search_blocks import SEARCH_BLOCKS

SHOWN = ("optimistic", "realistic", "pessimistic")
_OF_TEST_SETS = {  # title, what rows are compared with, labels
    "table2": ("Table 2", "the run that each began as", ("model", "settings")),
    "ablation": ("What capsules consist of", "the run that is named", ("model",)),
}
_COUNTS = ("entities", "relations", "train", "valid", "test")


def blocks(part: str, rows: Sequence[Row]) -> list[Block]:
    """The tables of a table or figure of the paper."""
    if part == "table1":
        return _data(rows)
    if part in _OF_TEST_SETS:
        name, others, columns = _OF_TEST_SETS[part]
        datasets = dict.fromkeys(row["dataset"] for row in rows)
        return [
            _block(
                f"{name}, {data_name(dataset)}: {NAMES[metric]} on the test set, both sides, filtered ranks",
                [row for row in rows if row["dataset"] == dataset],
                metric,
                {label: label for label in columns},
            )
            for dataset in datasets
            for metric in NAMES
        ] + _paired(rows, f"{name}, against {others}: difference of MRR on the same test triples, paired t-test")
    if part == "table3":
        title = "Table 3: Hits@10 % on WN18RR's validation set, N = 50, learning rate 1e-5, m routing iterations"
        return [_block(title, rows, "hits@10", {"settings": "settings", "m": "m", "epoch": "epoch"}, digits=2)]
    if part in SEARCH_BLOCKS:
        return SEARCH_BLOCKS[part](rows)
    names = {"figure2": {"side": "asked for", "category": "category"}, "figure3": {"relation": "relation"}}[part]
    about = {
        "figure2": "Figure 2: {} on FB15k-237's test set by the side asked for and relation category",
        "figure3": "Figure 3: {} on WN18RR's test set by relation (share of the test triples), both sides",
    }[part]
    shown = [_with_share(row) for row in rows] if part == "figure3" else rows
    digits = 2 if part == "figure2" else 1
    labels = {**names, "model": "model", "settings": "settings"}
    return [_block(about.format(NAMES[m]), shown, m, labels, digits) for m in ("hits@10", "mrr")]


def claim_block(claim: Claim) -> Block:
    """A claim: every comparison under the tie policies, and in the paper's own figures."""
    verdicts = ", ".join(f"{policy} {verdict(claim.holds(policy))}" for policy in SHOWN)
    title = f"{claim.text}; CapsE with {claim.settings} settings: {verdicts}"
    rows = [
        (
            comparison.what,
            NAMES[metric],
            _versus(metric, *((printed or {}).get(metric) for printed in comparison.paper)),
            *(_ours_versus(comparison, policy, metric) for policy in SHOWN),
        )
        for comparison in claim.comparisons
        for metric in comparison.metrics
    ]
    header = ("first against second", "metric", "paper", *SHOWN)
    if any(figure.endswith("~") for row in rows for figure in row):
        title += f"; ~ marks differences within {CLOSE:g} standard errors of the seeds"
    return Block(title, header, rows or [("nothing planned", *[""] * 5)], labels=2)


def target_block(outcomes: Iterable[Mapping[str, Any]]) -> Block:
    """The lines that were to be reached."""
    rows = []
    for outcome in outcomes:
        for metric, line in outcome["goals"].items():
            sense = "at most" if metric == "mr" else "above" if outcome["above"] else "at least"
            rows.append(
                (
                    data_name(outcome["dataset"]),
                    f"{outcome['model']}, {outcome['settings']}",
                    NAMES[metric],
                    f"{sense} {number(metric, line['goal'])}",
                    cell(metric, line["ours"]),
                    f"{line['seeds_that_reach']} of {len(line['ours']['seeds'])}" if line["ours"] else "–",
                    _verdict_on(metric, line),
                )
            )
    title = "Lines to reach: test set, both sides, filtered, realistic ranks, mean ± deviation over seeds"
    return Block(title, ("data set", "model, settings", "metric", "line", "ours", "seeds", "outcome"), rows, labels=3)


def grid_block(grid: RecordedGrid) -> Block:
    """The trials of a grid that ended, best first."""
    metric = grid.trials[0]["metric"] if grid.trials else ""
    keys = list(grid.trials[0]["settings"]) if grid.trials else []
    title = f"{grid.name}: {len(grid.trials)} of {grid.total} trials, {metric} on the validation set, realistic ranks"
    rows = [
        (
            *(str(trial["settings"][key]) for key in keys),
            number(metric, trial["value"], digits=2),
            str(trial["best_epoch"]),
            f"{trial['seconds']:,.0f}",
            trial["machine"],
        )
        for trial in grid.trials
    ]
    return Block(title, (*keys, metric, "epoch kept", "training s", "machine"), rows, labels=0)


def verdict(holds: bool | None) -> str:
    return "unknown" if holds is None else "true" if holds else "false"


def data_name(dataset: str) -> str:
    return DATASETS.get(dataset, dataset)


def _block(title: str, rows: Sequence[Row], metric: str, labels: Mapping[str, str], digits: int = 1) -> Block:
    """One metric of all rows."""
    lines = []
    for row in rows:
        ours = row["ours"]
        seeds = len(ours["realistic"][metric]["seeds"]) if ours else 0
        figures = [cell(metric, ours and ours[policy][metric], digits) for policy in SHOWN]
        named = [_label(row, key) for key in labels]
        lines.append((*named, number(metric, row["paper"].get(metric), digits), *figures, str(seeds or "–")))
    return Block(title, (*labels.values(), "paper", *SHOWN, "seeds"), lines, labels=len(labels))


def _paired(rows: Sequence[Row], title: str) -> list[Block]:
    """What is compared triple by triple, a line for each seed."""
    lines = [
        (
            data_name(row["dataset"]),
            row["model"],
            test["against"],
            seed,
            f"{test['difference']:+.4f}",
            f"{test['low']:+.4f} to {test['high']:+.4f}",
            f"{test['p_value']:.2g}",
        )
        for row in rows
        for seed, test in row.get("paired", {}).items()
    ]
    header = ("data set", "model", "against", "seed", "difference", "95 % interval", "p")
    return [Block(title, header, lines, labels=3)] if lines else []


def _label(row: Row, key: str) -> str:
    return "–" if key == "settings" and row["recipe"] is None else str(row[key])


def _with_share(row: Row) -> Row:
    share = row["paper"]["share"] if row["share"] is None else row["share"]
    return {**row, "relation": f"{row['relation']} ({100 * share:.1f} %)"}


def _data(rows: Sequence[Row]) -> list[Block]:
    sizes: list[tuple[str, ...]] = []
    categories: list[tuple[str, ...]] = []
    for row in rows:
        for who in ("paper", "ours"):
            found = row[who]
            counts = [f"{found[key]:,}" for key in _COUNTS] if found else ["not here"] * len(_COUNTS)
            sizes.append((data_name(row["dataset"]), who, *counts))
            if found and "category_relations" in found:
                relations, shares = found["category_relations"], found["category_test_share"]
                cells = (f"{relations[name]} ({100 * shares[name]:.1f} %)" for name in relations)
                categories.append((data_name(row["dataset"]), who, *cells))
    return [
        Block("Table 1: sizes of the data sets", ("data set", "", *_COUNTS), sizes, labels=2),
        Block(
            "Relations in each category (share of the test triples)",
            ("data set", "", "1-1", "1-M", "M-1", "M-M"),
            categories,
            labels=2,
        ),
    ]


def _ours_versus(comparison: Comparison, policy: str, metric: str) -> str:
    sides = (comparison.first, comparison.second)
    means = [None if found is None else found[policy][metric]["mean"] for found in sides]
    return _versus(metric, *means) + (" ~" if comparison.is_close(policy, metric) else "")


def _versus(metric: str, first: float | None, second: float | None) -> str:
    if first is None and second is None:
        return "–"
    sign = "?" if first is None or second is None else ">" if first > second else "<" if first < second else "="
    return f"{number(metric, first)} {sign} {number(metric, second)}"


def _verdict_on(metric: str, line: Mapping[str, Any]) -> str:
    if line["reached"] is None:
        return NOT_RECORDED
    gap = line["short_by"]
    short = f"{gap:,.1f}" if metric == "mr" else f"{gap:.4f}" if metric == "mrr" else f"{100 * gap:.2f} points"
    if line["reached"]:
        return f"reached, short by {short}" if gap else "reached"
    return f"missed by {short}"
