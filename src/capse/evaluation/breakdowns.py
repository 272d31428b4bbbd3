"""The same metrics over parts of the test set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from capse.arrays import Float64s
from capse.evaluation.metrics import Summary, named
from capse.triples import Ids


def summarize_sides(sides: Mapping[str, Float64s]) -> dict[str, Summary]:
    """The metrics of each side, given what its rows contribute, (n, 4, 5)."""
    return {side: named(values.mean(axis=0)) for side, values in sides.items()}


def break_down(
    sides: Mapping[str, Float64s], groups: Ids, names: Sequence[str], *, unit: str
) -> dict[str, dict[str, Any]]:
    """The metrics of each side over the rows of each group that has any.

    Row i belongs to the group called ``names[groups[i]]``; ``unit`` says what a row is and names the count of them.

    >>> from capse.evaluation.metrics import contributions
    >>> from capse.evaluation.ranks import Ranks
    >>> values = contributions(Ranks(np.array([0, 9, 1]), np.array([0, 0, 0]), np.array([10, 10, 10])))
    >>> parts = break_down({"tail": values}, np.array([1, 1, 0]), ["rare", "common"], unit="triples")
    >>> parts["common"]["triples"], parts["common"]["tail"]["realistic"]["mr"]
    (2, 5.5)
    """
    order = np.argsort(groups, kind="stable")
    present, starts = np.unique(groups[order], return_index=True)
    return {
        names[group]: {
            unit: len(rows),
            "share": len(rows) / len(groups),
            **summarize_sides({side: values[rows] for side, values in sides.items()}),
        }
        for group, rows in zip(present, np.split(order, starts[1:]), strict=True)
    }
