"""Figures 2 to 4 from rows of data; in 2 and 3 bars are ours, diamonds what the paper prints.

They are made for paper too: what colour says, hatching says again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from capse.graph.statistics import CATEGORIES
from capse.reports.figures import COLOURS, INK, STYLE
from capse.runs.atomic import atomic_path
from capse_paper.findings.paper import SHARES
from capse_paper.findings.rows import Row

METRICS = {"hits@10": "Hits@10 (%)", "mrr": "MRR"}
_PRINT: dict[Any, Any] = {**STYLE, "font.size": 10, "axes.titlesize": 10.5, "hatch.linewidth": 0.6}
_HATCHES = ("", "////", "xxxx", "----")  # one for each form of the two models
_DASHES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))
_DIAMOND: dict[str, Any] = {"marker": "D", "ms": 4.5, "color": "white", "markeredgecolor": INK, "linestyle": "none"}
_WIDTH = 7.2  # inches: a page's text


@rc_context(_PRINT)
def figure2(rows: Sequence[Row]) -> Figure:
    """Hits@10 and MRR for heads and for tails by relation category, on FB15k-237."""
    figure = Figure(figsize=(_WIDTH, 5.6))
    panels = figure.subplots(2, 2, sharex=True, sharey="row")
    for line, (metric, name) in zip(panels, METRICS.items(), strict=True):
        for axes, side in zip(line, ("head", "tail"), strict=True):
            chosen = [row for row in rows if row["side"] == side]
            _bars(axes, chosen, "category", CATEGORIES, metric, horizontal=False)
            axes.set_xticks(np.arange(len(CATEGORIES)), CATEGORIES)
            axes.grid(axis="y")
            if metric == "hits@10":
                axes.set_title(f"predicting the {side}")
        line[0].set_ylabel(name)
    _legend(figure, panels[0][0])
    return figure


@rc_context(_PRINT)
def figure3(rows: Sequence[Row]) -> Figure:
    """Hits@10 and MRR by relation on WN18RR, with the share of the test triples."""
    figure = Figure(figsize=(_WIDTH, 6.4))
    panels = figure.subplots(1, 3, sharey=True, width_ratios=(3, 3, 1.4))
    relations = list(SHARES)
    for axes, (metric, name) in zip(panels, METRICS.items(), strict=False):
        _bars(axes, rows, "relation", relations, metric, horizontal=True)
        axes.set_xlabel(name)
    found = {row["relation"]: row["paper"]["share"] if row["share"] is None else row["share"] for row in rows}
    places, shares = np.arange(len(relations)), [100 * found[relation] for relation in relations]
    panels[2].barh(places, shares, 0.5, color="white", edgecolor=INK)
    for place, share in zip(places, shares, strict=True):
        panels[2].text(share + 1.5, place, f"{share:.1f}", va="center")
    panels[2].set_xlim(0, 62)
    panels[2].set_xlabel("% of test\ntriples")
    panels[0].set_yticks(places, [relation.replace("_", " ") for relation in relations])
    panels[0].margins(y=0.01)
    panels[0].invert_yaxis()
    for axes in panels:
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
    _legend(figure, panels[0])
    return figure


@rc_context(_PRINT)
def figure4(rows: Sequence[Row]) -> Figure:
    """Validation MRR by epoch on gitsearch, a line for each number of filters; the best epoch is marked."""
    figure = Figure(figsize=(_WIDTH, 3.6))
    axes = figure.subplots()
    for number, row in enumerate(rows):
        label = f"N = {row['filters']}" + (f" ({row['settings']})" if row["settings"] != "paper" else "")
        look: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "linestyle": _DASHES[number % len(_DASHES)]}
        epochs, values = ([look[key] for look in row["curve"]] for key in ("epoch", "mrr"))
        axes.plot(epochs, values, label=label if values else f"{label} (not recorded)", **look)
        if values:
            axes.plot(row["best_epoch"], max(values), marker="D", ms=4.5, color=look["color"])
    axes.set_xlabel("epoch")
    axes.set_ylabel("MRR on the validation set")
    axes.grid(axis="y")
    figure.legend(loc="outside upper left", ncols=3)
    return figure


FIGURES: dict[str, Callable[[Sequence[Row]], Figure]] = {"figure2": figure2, "figure3": figure3, "figure4": figure4}


def save_figure(part: str, rows: Sequence[Row], folder: str | Path) -> list[Path]:
    """Draw a figure and write it as PNG and SVG."""
    figure = FIGURES[part](rows)
    paths = []
    for kind in ("png", "svg"):
        path = Path(folder) / f"{part}.{kind}"
        no_date = {"Date": None} if kind == "svg" else None
        with rc_context({"svg.hashsalt": part}), atomic_path(path) as temporary:
            figure.savefig(temporary, format=kind, dpi=200, metadata=no_date)
        paths.append(path)
    return paths


def _bars(axes: Axes, rows: Sequence[Row], key: str, groups: Sequence[str], metric: str, *, horizontal: bool) -> None:
    """A bar for each group and series: realistic, with a line from the pessimistic to the optimistic figure."""
    series = _series(rows)
    width = 0.84 / len(series)
    scale = 100.0 if metric == "hits@10" else 1.0
    for number, (model, settings) in enumerate(series):
        of_group = {row[key]: row for row in rows if (row["model"], row["settings"]) == (model, settings)}
        chosen = [of_group[group] for group in groups]
        places = np.arange(len(groups)) + (number - (len(series) - 1) / 2) * width
        low, middle, high = (
            np.array([scale * row["ours"][policy][metric]["mean"] if row["ours"] else np.nan for row in chosen])
            for policy in ("pessimistic", "realistic", "optimistic")
        )
        name = model if settings == "paper" else f"{model} ({settings})"
        label = name if np.isfinite(middle).any() else f"{name} (not recorded)"
        look: dict[str, Any] = {"color": COLOURS[number], "edgecolor": INK, "linewidth": 0.7, "hatch": _HATCHES[number]}
        reach = np.maximum(0, [middle - low, high - middle])
        ties: dict[str, Any] = {"color": INK, "linestyle": "none", "capsize": 2.5, "linewidth": 1.2}
        printed = [scale * row["paper"][metric] for row in chosen] if settings == "paper" else []
        if horizontal:
            axes.barh(places, middle, 0.9 * width, label=label, **look)
            axes.errorbar(middle, places, xerr=reach, **ties)
            axes.plot(printed, places[: len(printed)], zorder=3, **_DIAMOND)
        else:
            axes.bar(places, middle, 0.9 * width, label=label, **look)
            axes.errorbar(places, middle, yerr=reach, **ties)
            axes.plot(places[: len(printed)], printed, zorder=3, **_DIAMOND)
    axes.plot([], [], label="as the paper prints", **_DIAMOND)


def _series(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """What is drawn: the paper's settings, and its authors' program's where they are recorded."""
    return list(
        dict.fromkeys(
            (row["model"], row["settings"])
            for row in rows
            if row["settings"] == "paper" or (row["settings"] == "released" and row["ours"])
        )
    )


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda place: labels[place] == "as the paper prints")
    figure.legend([handles[i] for i in order], [labels[i] for i in order], loc="outside upper left", ncols=3)
