"""How the ways to count ties part while CapsE's released form is trained, on the validation set.

``ties.json`` beside the runs holds one training, perhaps stopped before its end: ``what`` it is in words, ``command``,
``commit``, ``machine``, ``planned`` epochs, and in ``looks`` lines of metrics.jsonl with ``epoch`` and ``validation``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from capse.reports.figures import COLOURS, STYLE
from capse.reports.svg import inline_svg
from capse_paper.report.block import number

POLICIES = {"optimistic": "-", "realistic": "--", "pessimistic": ":"}
_METRICS = {"mrr": "MRR", "hits@10": "Hits@10 %"}


def tie_curve(path: Path) -> dict[str, Any] | None:
    """What the page says of it: the best epoch by either way to count ties, a drawing and a table."""
    if not path.is_file():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    validated = found["looks"]
    mrr = [{"epoch": one["epoch"], **{p: one["validation"][p]["mrr"] for p in POLICIES}} for one in validated]
    cells = [(policy, metric) for metric in _METRICS for policy in POLICIES]
    return {
        "what": found["what"],
        "epochs": validated[-1]["epoch"],
        "planned": found["planned"],
        "fair": max(mrr, key=lambda one: one["realistic"]),
        "kind": max(mrr, key=lambda one: one["optimistic"]),
        "drawing": inline_svg(tie_figure(mrr), "Line chart: validation MRR by epoch and tie policy", "tie-curve"),
        "origin": f"{found['command']}, commit {found['commit']}, {found['machine']['processor']}",
        "header": ["epoch", *(f"{_METRICS[metric]} {policy}" for policy, metric in cells)],
        "rows": [
            (str(one["epoch"]), *(number(metric, one["validation"][policy][metric]) for policy, metric in cells))
            for one in validated
        ],
    }


@rc_context(STYLE)
def tie_figure(mrr: Sequence[Mapping[str, Any]]) -> Figure:
    """MRR by epoch, a line for each way to count ties."""
    drawn = Figure(figsize=(4.8, 2.8))
    axes = drawn.subplots()
    for (policy, dashes), colour in zip(POLICIES.items(), COLOURS, strict=False):
        axes.plot([one["epoch"] for one in mrr], [one[policy] for one in mrr], dashes, color=colour, label=policy)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("epoch")
    axes.set_ylabel("MRR on the validation set")
    axes.grid(axis="y")
    drawn.legend(loc="outside upper left", ncols=3)
    return drawn
