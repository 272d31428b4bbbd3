"""One user's results before and after: each document a line from its old place to its new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from capse.reports.figures import COLOURS, INK, STYLE

_LONGEST = 44  # letters of a document's name that are shown


@rc_context(STYLE)
def before_and_after(title: str, documents: Sequence[Mapping[str, Any]], past: Sequence[str] = ()) -> Figure:
    """The engine's list on the left, the user's on the right; what the user then chose is drawn in colour.

    ``documents`` have ``document``, ``position`` and ``rank`` (both from 1) and ``chosen``; ``past`` are the user's
    last documents, the latest last.
    """
    count = len(documents)
    figure = Figure(figsize=(9.6, 1.1 + 0.3 * count + 0.22 * bool(past)))
    axes = figure.subplots()
    for row in documents:
        colour, width = (COLOURS[4], 2.2) if row["chosen"] else ("#8c959f", 1.0)
        weight = "bold" if row["chosen"] else "normal"
        axes.plot([0, 1], [row["position"], row["rank"]], color=colour, linewidth=width, marker="o", markersize=4)
        name = shorten(str(row["document"]), _LONGEST, placeholder="…") if " " in str(row["document"]) else _cut(row)
        for place, x, side in ((row["position"], -0.04, "right"), (row["rank"], 1.04, "left")):
            text = f"{name}  {place}" if side == "right" else f"{place}  {name}"
            axes.text(x, place, text, ha=side, va="center", fontsize=8.5, weight=weight, color=INK)
    axes.set_xlim(-1.9, 2.9)
    axes.set_ylim(count + 0.7, -0.1)
    axes.text(-0.04, 0.25, "the engine's order", ha="right", va="center", color=INK)
    axes.text(1.04, 0.25, "for this user", ha="left", va="center", color=INK)
    axes.set_title(title, loc="left")
    axes.set_axis_off()
    if past:
        figure.supxlabel(
            shorten("read before: " + ", ".join(past), 150, placeholder=" …"), fontsize=8.5, x=0.01, ha="left"
        )
    return figure


def _cut(row: Mapping[str, Any]) -> str:
    """The end of a path says more than its beginning."""
    name = str(row["document"])
    return name if len(name) <= _LONGEST else "…" + name[1 - _LONGEST :]
