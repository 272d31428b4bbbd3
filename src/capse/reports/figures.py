"""Figures from recorded results: learning curves, tie policies and breakdowns.

Each function takes plain data (lines of metrics.jsonl, or what ``capse evaluate --json`` prints, by model) and gives a
matplotlib Figure that can be saved in any format. Nothing goes through pyplot, so nothing is global.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

Evaluations = Mapping[str, Mapping[str, Any]]  # model -> its evaluation as JSON

POLICIES = ("optimistic", "expected", "realistic", "pessimistic")  # from the kindest to the harshest
RELATIONS_SHOWN = 15
INK = "#1f2328"
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")  # Okabe and Ito: safe for the colour-blind
_WIDTH = 4.8  # inches: a phone's width, or half a page
STYLE: dict[Any, Any] = {
    "font.size": 9.5,
    "axes.titlesize": 9.5,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign in a label is a dollar sign
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#8c959f",
    "grid.alpha": 0.35,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


@rc_context(STYLE)
def learning_curves(history: Sequence[Mapping[str, Any]]) -> Figure:
    """Loss and validation MRR by epoch; the band reaches from the pessimistic to the optimistic MRR."""
    figure = Figure(figsize=(_WIDTH, 3.4))
    loss, quality = figure.subplots(2, 1, sharex=True)
    loss.plot([line["epoch"] for line in history], [line["loss"] for line in history], color=COLOURS[0])
    loss.set_ylabel("training loss")
    validated = [line for line in history if "validation" in line]
    epochs = [line["epoch"] for line in validated]
    low, middle, high = (
        [line["validation"][policy]["mrr"] for line in validated]
        for policy in ("pessimistic", "realistic", "optimistic")
    )
    quality.fill_between(epochs, low, high, color=COLOURS[0], alpha=0.3, linewidth=0)
    quality.plot(epochs, middle, color=COLOURS[0], marker="o", markersize=4)
    if validated and validated[-1]["best_epoch"] in epochs:
        best = validated[-1]["best_epoch"]
        quality.plot([best], [middle[epochs.index(best)]], color=COLOURS[1], marker="o", markersize=9, zorder=1.5)
    quality.set_ylabel("validation MRR")
    quality.set_xlabel("epoch")
    quality.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    quality.margins(y=0.25)
    quality.set_ylim(bottom=0)
    for axes in (loss, quality):
        axes.grid(axis="y")
    return figure


@rc_context(STYLE)
def tie_policies(evaluations: Evaluations) -> Figure:
    """MRR of every model under every tie policy, with the bootstrap interval of the realistic one."""
    figure = Figure(figsize=(_WIDTH, 2.9))
    axes = figure.subplots()
    series = {
        model: [evaluation["metrics"]["both"][policy]["mrr"] for policy in POLICIES]
        for model, evaluation in evaluations.items()
    }
    places = _grouped_bars(axes, POLICIES, series)
    realistic = POLICIES.index("realistic")
    for model, evaluation in evaluations.items():
        low, high = evaluation["intervals"]["both"]["realistic"]["mrr"]
        value = series[model][realistic]
        reach = [[max(0.0, value - low)], [max(0.0, high - value)]]
        axes.errorbar([places[model][realistic]], [value], yerr=reach, color=INK, capsize=4, linewidth=1.2)
    axes.set_ylabel("MRR")
    _legend(figure, axes)
    return figure


@rc_context(STYLE)
def by_category(evaluations: Evaluations) -> Figure:
    """Realistic MRR by relation category, for the head and for the tail as what is asked for."""
    figure = Figure(figsize=(_WIDTH, 2.9))
    panels = figure.subplots(1, 2, sharey=True)
    groups = _groups(evaluations, "category")
    for side, axes in zip(("head", "tail"), panels, strict=True):
        _grouped_bars(axes, _with_share(groups), _realistic_mrr(evaluations, "category", groups, side))
        axes.set_title(f"asked for the {side}")
    panels[0].set_ylabel("MRR")
    panels[1].tick_params(axis="y", length=0)
    _legend(figure, panels[0])
    return figure


@rc_context(STYLE)
def by_frequency(evaluations: Evaluations) -> Figure:
    """Realistic MRR by how often the true answer occurs in training."""
    figure = Figure(figsize=(_WIDTH, 2.9))
    axes = figure.subplots()
    groups = _groups(evaluations, "frequency")
    _grouped_bars(axes, _with_share(groups), _realistic_mrr(evaluations, "frequency", groups, "both"))
    axes.set_xlabel("training triples with the true answer (share of questions)")
    axes.set_ylabel("MRR")
    _legend(figure, axes)
    return figure


@rc_context(STYLE)
def by_relation(evaluations: Evaluations, names: Mapping[str, str]) -> Figure:
    """Realistic MRR of the relations with most test triples; ``names`` has a name for each label."""
    groups = _groups(evaluations, "relation")
    shown = sorted(groups, key=lambda label: -groups[label]["share"])[:RELATIONS_SHOWN]
    labels = [f"{_shortened(names.get(label, label))} ({groups[label]['share']:.0%})" for label in shown]
    figure = Figure(figsize=(_WIDTH, 1.0 + len(shown) * max(0.25, 0.13 * len(evaluations))))
    axes = figure.subplots()
    _grouped_bars(axes, labels, _realistic_mrr(evaluations, "relation", shown, "both"), horizontal=True)
    axes.set_xlabel("MRR")
    _legend(figure, axes)
    return figure


def _grouped_bars(
    axes: Axes, groups: Sequence[str], series: Mapping[str, Sequence[float]], *, horizontal: bool = False
) -> dict[str, Any]:
    """A bar for each group and model; returns where the middle of each model's bars is."""
    width = 0.8 / len(series)
    places = {
        model: np.arange(len(groups)) + (number - (len(series) - 1) / 2) * width for number, model in enumerate(series)
    }
    for number, (model, values) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        if horizontal:
            axes.barh(places[model], values, 0.9 * width, color=colour, label=model)
        else:
            axes.bar(places[model], values, 0.9 * width, color=colour, label=model)
    ticks = np.arange(len(groups))
    if horizontal:
        axes.set_yticks(ticks, groups)
        axes.margins(y=0.01)
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
    else:
        axes.set_xticks(ticks, groups)
        axes.tick_params(axis="x", length=0)
        axes.grid(axis="y")
    return places


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    columns = 3 if max(map(len, labels)) <= 16 else 1
    figure.legend(handles, [_shortened(label) for label in labels], loc="outside upper left", ncols=columns)


def _groups(evaluations: Evaluations, kind: str) -> Mapping[str, Any]:
    """The groups of a breakdown; all models have the same, being evaluated on the same triples."""
    groups: Mapping[str, Any] = next(iter(evaluations.values()))["breakdowns"][kind]
    return groups


def _realistic_mrr(evaluations: Evaluations, kind: str, groups: Iterable[str], side: str) -> dict[str, list[float]]:
    return {
        model: [evaluation["breakdowns"][kind][group][side]["realistic"]["mrr"] for group in groups]
        for model, evaluation in evaluations.items()
    }


def _with_share(groups: Mapping[str, Any]) -> list[str]:
    return [f"{name}\n({group['share']:.0%})" for name, group in groups.items()]


def _shortened(name: str, most: int = 26) -> str:
    return name if len(name) <= most else "…" + name[1 - most :]


@rc_context(STYLE)
def reliability(judgements: Mapping[str, Any]) -> Figure:
    """How often what is given a probability is true, bin by bin; what lies on the diagonal is well calibrated."""
    bins = judgements["reliability"]
    figure = Figure(figsize=(_WIDTH, 4.2))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    above.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":")
    probabilities = [one["mean_probability"] for one in bins]
    above.plot(probabilities, [one["share_true"] for one in bins], color=COLOURS[0], marker="o", markersize=4)
    above.set_ylabel("share that is true")
    error = judgements["expected_calibration_error"]
    above.set_title(f"calibration error {error:.3f} on {judgements['triples']:,} triples, {judgements['true']:,} true")
    below.bar(probabilities, [one["judgements"] for one in bins], width=0.06, color=COLOURS[0])
    below.set_ylabel("triples")
    below.set_xlabel("probability")
    below.set_xlim(0, 1)
    return figure
