"""Metrics adjusted for chance, which make test sets of different numbers of candidates comparable.

With n_i candidates, ranking at random gives a rank of (n_i + 1) / 2 and a reciprocal rank of H(n_i) / n_i on average,
H(n) = 1 + 1/2 + ... + 1/n. Chance is 0 and perfection 1:

    AMRI = 1 − Σ (rank_i − 1) / Σ ((n_i + 1) / 2 − 1)          adjusted MRR = (MRR − E[MRR]) / (1 − E[MRR])

Berrendorf et al., On the Ambiguity of Rank-Based Evaluation of Entity Alignment or Link Prediction Methods, 2020; Hoyt
et al., A Unified Framework for Rank-based Evaluation Metrics for Link Prediction in Knowledge Graphs, 2022.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from capse.arrays import Float64s, Int64s
from capse.evaluation.metrics import METRICS, Summary, summarize
from capse.evaluation.ranks import Ranks


def adjusted(ranks: Ranks) -> Summary:
    """Both adjusted metrics under every policy for ties; 0 is chance, 1 perfect, below 0 worse than chance.

    >>> first_of_three = Ranks(greater=np.array([0]), equal=np.array([0]), candidates=np.array([3]))
    >>> adjusted(first_of_three)["realistic"]
    {'amri': 1.0, 'adjusted_mrr': 1.0}
    """
    by_chance = float(((ranks.candidates + 1) / 2 - 1).mean())
    expected = float(_reciprocal_by_chance(ranks.candidates).mean())
    return {
        policy: {
            "amri": 1 - (metrics["mr"] - 1) / by_chance if by_chance else 0.0,
            "adjusted_mrr": (metrics["mrr"] - expected) / (1 - expected) if expected < 1 else 0.0,
        }
        for policy, metrics in summarize(ranks).items()
    }


def _reciprocal_by_chance(candidates: Int64s) -> Float64s:
    """H(n) / n of each."""
    sums = np.cumsum(1 / np.arange(1, int(candidates.max(initial=1)) + 1))
    return np.asarray(sums[candidates - 1] / candidates)


def macro_average(groups: Mapping[str, Mapping[str, Any]], sides: tuple[str, ...]) -> dict[str, Summary]:
    """The plain mean over groups, each counting the same however many triples it has; groups as `break_down` gives.

    >>> parts = {name: {"both": {"realistic": {m: v for m in METRICS}}} for name, v in (("rare", 1.0), ("common", 0.0))}
    >>> macro_average(parts, ("both",))["both"]["realistic"]["mrr"]
    0.5
    """
    return {
        side: {
            policy: {
                metric: float(np.mean([group[side][policy][metric] for group in groups.values()])) for metric in METRICS
            }
            for policy in next(iter(groups.values()))[side]
        }
        for side in sides
    }
