"""How the ways to count ties part while CapsE's released form is trained, from its looks at the validation set.

``ties.json`` beside the runs holds one training, perhaps stopped before its end: ``what`` it is in words, ``command``,
``commit``, ``machine``, ``planned`` epochs, and ``looks``, lines of metrics.jsonl with ``epoch`` and ``validation``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from capse.reports.figures import COLOURS, STYLE
from capse.reports.html import Markup, element, figure, join, table
from capse.reports.reproduction.block import number
from capse.reports.svg import inline_svg

NAME = "ties.json"
POLICIES = {"optimistic": "-", "realistic": "--", "pessimistic": ":"}
_METRICS = ("mrr", "hits@10")


def tie_curve(path: Path) -> Markup:
    """A sentence, a drawing and a table; nothing where no such training is recorded."""
    if not path.is_file():
        return Markup("")
    found = json.loads(path.read_text(encoding="utf-8"))
    looks = found["looks"]
    best = {policy: max(looks, key=lambda look: look["validation"][policy]["mrr"]) for policy in POLICIES}
    kind, fair = best["optimistic"], best["realistic"]
    words = (
        f"{found['what']} ({looks[-1]['epoch']} of {found['planned']} epochs). MRR on the validation set is best at "
        f"epoch {fair['epoch']} when ties are shared ({_mrr(fair, 'realistic')}), and at epoch {kind['epoch']} when "
        f"they count for the true answer ({_mrr(kind, 'optimistic')}). At that epoch shared ties give "
        f"{_mrr(kind, 'realistic')}, and ties against the true answer {_mrr(kind, 'pessimistic')}."
    )
    if kind["validation"]["realistic"]["mrr"] < fair["validation"]["realistic"]["mrr"]:
        words += " Whoever counts and chooses the optimistic way takes more ties for a better model."
    drawing = inline_svg(tie_figure(looks), "Line chart: validation MRR by epoch and tie policy", "tie-curve")
    header = ["epoch", *(f"{metric} {policy}" for metric in ("MRR", "Hits@10 %") for policy in POLICIES)]
    rows = [
        (str(look["epoch"]), *(number(metric, look["validation"][p][metric]) for metric in _METRICS for p in POLICIES))
        for look in looks
    ]
    origin = f"{found['command']}, commit {found['commit']}, {found['machine']['processor']}"
    return join(
        [
            element("p", words),
            figure(drawing, "The same training, looked at after every epoch and counted in three ways."),
            table(f"Validation set by epoch. {origin}", header, ("", rows)),
        ]
    )


@rc_context(STYLE)
def tie_figure(looks: Sequence[Mapping[str, Any]]) -> Figure:
    """MRR by epoch, a line for each way to count ties."""
    drawn = Figure(figsize=(4.8, 2.8))
    axes = drawn.subplots()
    for (policy, dashes), colour in zip(POLICIES.items(), COLOURS, strict=False):
        values = [look["validation"][policy]["mrr"] for look in looks]
        axes.plot([look["epoch"] for look in looks], values, dashes, color=colour, label=policy)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("epoch")
    axes.set_ylabel("MRR on the validation set")
    axes.grid(axis="y")
    drawn.legend(loc="outside upper left", ncols=3)
    return drawn


def _mrr(look: Mapping[str, Any], policy: str) -> str:
    return number("mrr", look["validation"][policy]["mrr"])
