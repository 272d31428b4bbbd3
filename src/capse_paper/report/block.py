"""A table of text, and how figures are written in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NAMES = {"mr": "MR", "mrr": "MRR", "hits@1": "Hits@1 %", "hits@10": "Hits@10 %"}
NOT_RECORDED = "not recorded"


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
    return f"{value:.3f}" if metric in ("mrr", "ndcg@10") else f"{100 * value:.{digits}f}"


def _aligned(row: Sequence[str], widths: Sequence[int], labels: int) -> list[str]:
    return [
        text.ljust(width) if column < labels else text.rjust(width)
        for column, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
