"""Rows of data as tables for people: the paper's figure, then ours under three ways to count ties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capse.reports.reproduction.claims import Claim, Comparison
from capse.reports.reproduction.paper import DATASETS
from capse.reports.reproduction.rows import Row

SHOWN = ("optimistic", "realistic", "pessimistic")
NAMES = {"mr": "MR", "mrr": "MRR", "hits@1": "Hits@1 %", "hits@10": "Hits@10 %"}
NOT_RECORDED = "not recorded"
_COUNTS = ("entities", "relations", "train", "valid", "test")


@dataclass(frozen=True)
class Block:
    """A table of text; the first ``labels`` columns name a row."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    labels: int = 1

    def to_text(self) -> str:
        """Aligned columns, a line for each row; a label that repeats the one above is left out."""
        rows = [self.header, *(self._without_repeats(number) for number in range(len(self.rows)))]
        widths = [max(len(row[column]) for row in rows) for column in range(len(self.header))]
        lines = ["  ".join(_aligned(row, widths, self.labels)).rstrip() for row in rows]
        return "\n".join([self.title, "", lines[0], "-" * max(map(len, lines)), *lines[1:]])

    def _without_repeats(self, number: int) -> tuple[str, ...]:
        row, before = self.rows[number], self.rows[number - 1] if number else ()
        same = 0
        while same < self.labels and row[: same + 1] == before[: same + 1]:
            same += 1
        return ("",) * same + row[same:]


def blocks(part: str, rows: Sequence[Row]) -> list[Block]:
    """The tables of a table or figure of the paper."""
    if part == "table1":
        return _data(rows)
    if part == "table2":
        datasets = dict.fromkeys(row["dataset"] for row in rows)
        return [
            _block(
                f"Table 2, {data_name(dataset)}: {NAMES[metric]} on the test set, both sides, filtered ranks",
                [row for row in rows if row["dataset"] == dataset],
                metric,
                {"model": "model", "settings": "settings"},
            )
            for dataset in datasets
            for metric in NAMES
        ]
    if part == "table3":
        title = "Table 3: Hits@10 % on WN18RR's validation set, N = 50, learning rate 1e-5, m routing iterations"
        return [_block(title, rows, "hits@10", {"m": "m", "epoch": "epoch"}, digits=2)]
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
            *(_versus(metric, *_means(comparison, policy, metric)) for policy in SHOWN),
        )
        for comparison in claim.comparisons
        for metric in comparison.metrics
    ]
    header = ("first against second", "metric", "paper", *SHOWN)
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
                    _verdict_on(metric, line),
                )
            )
    title = "Lines to reach: test set, both sides, filtered, realistic ranks, mean ± deviation over seeds"
    return Block(title, ("data set", "model, settings", "metric", "line", "ours", "outcome"), rows, labels=3)


def cell(metric: str, spread: Mapping[str, Any] | None, digits: int = 1) -> str:
    """Mean and deviation over seeds.

    >>> cell("hits@10", {"mean": 0.5612, "std": 0.0021, "seeds": [0, 1]})
    '56.1 ± 0.2'
    """
    if spread is None:
        return NOT_RECORDED
    mean = number(metric, spread["mean"], digits)
    return mean if spread["std"] is None else f"{mean} ± {number(metric, spread['std'], digits)}"


def number(metric: str, value: float | None, digits: int = 1) -> str:
    """A figure as tables for people have it: Hits in per cent, a dash for what is not there."""
    if value is None:
        return "–"
    if metric == "mr":
        return f"{value:,.0f}"
    return f"{value:.3f}" if metric == "mrr" else f"{100 * value:.{digits}f}"


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


def _means(comparison: Comparison, policy: str, metric: str) -> list[float | None]:
    sides = (comparison.first, comparison.second)
    return [None if found is None else found[policy][metric]["mean"] for found in sides]


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


def _aligned(row: Sequence[str], widths: Sequence[int], labels: int) -> list[str]:
    return [
        text.ljust(width) if column < labels else text.rjust(width)
        for column, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
