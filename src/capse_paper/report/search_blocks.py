"""Table 4 and Figure 4 as tables for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from capse_paper.findings.search_rows import Row
from capse_paper.report.block import NAMES, Block, cell, number

_METRICS = ("mrr", "hits@1", "ndcg@10")
_HISTORY = {"prequential": "all clicks before an impression known", "frozen": "clicks before the test period known"}


def table4_blocks(rows: Sequence[Row]) -> list[Block]:
    """One table for each log and kind of history."""
    found = []
    for (log, history), part in groupby(rows, key=lambda row: (row["dataset"], row["history"])):
        title = f"Table 4, {log}'s test set, ties in expectation; history {history}: {_HISTORY[history]}"
        lines = [_line(row) for row in part]
        header = ("model", "settings", "paper MRR", "MRR", "paper Hits@1 %", NAMES["hits@1"], "NDCG@10", "seeds")
        found.append(Block(title, (*header, "over SE", "over CI", "over itself without CapsE"), lines, labels=2))
    return found


def figure4_blocks(rows: Sequence[Row]) -> list[Block]:
    """The best of each curve."""
    lines = []
    for row in rows:
        best = row["ours"] and row["ours"]["expected"]["mrr"]
        epochs, seeds = len(row["curve"]), len(best["seeds"]) if best else 0
        line = (str(row["filters"]), row["settings"], cell("mrr", best), str(row["best_epoch"] or "–"))
        lines.append((*line, str(epochs or "–"), str(seeds or "–")))
    title = "Figure 4: CapsE on gitsearch's validation set, the best epoch of each number of filters N"
    return [Block(title, ("N", "settings", "best MRR", "at epoch", "validations", "seeds"), lines, labels=2)]


SEARCH_BLOCKS: dict[str, Callable[[Sequence[Row]], list[Block]]] = {"table4": table4_blocks, "figure4": figure4_blocks}


def _line(row: Row) -> tuple[str, ...]:
    ours = row["ours"] and row["ours"]["expected"]
    mrr, hits, ndcg = (cell(metric, ours and ours[metric]) for metric in _METRICS)
    seeds = str(len(ours["mrr"]["seeds"])) if ours else "–"
    printed = [number(metric, row["paper"].get(metric)) for metric in ("mrr", "hits@1")]
    against = row["against"] or {}
    beside = [against.get(name) for name in ("SE", "CI")]
    itself = next((test for name, test in against.items() if name not in ("SE", "CI")), None)
    tests = [_test(test) for test in (*beside, itself)]
    return (row["model"], row["settings"], printed[0], mrr, printed[1], hits, ndcg, seeds, *tests)


def _test(test: Mapping[str, Any] | None) -> str:
    """The difference of MRR, with the p-value of the paired t-test."""
    return "–" if test is None else f"{test['difference']:+.3f} (p {_p(test['p_value'])})"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"
