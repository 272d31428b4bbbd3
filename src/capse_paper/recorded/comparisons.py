"""Two runs compared triple by triple, ``<results>/runs/<experiment>/seed-<n>/paired.json``.

It is made when both are there, since what is kept of a run is not its ranks.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from capse.arrays import Float64s
from capse.evaluation.paired import compare
from capse.graph.link_prediction.evaluation import LinkPredictionResult
from capse.runs.atomic import write_json

COMPARISON = "paired.json"


def write_comparison(folder: Path, result: LinkPredictionResult, against: str, other: LinkPredictionResult) -> None:
    """Record how the run in ``folder`` differs from another, called ``against``, on the same test triples."""
    found = compare(_reciprocal_ranks(result), _reciprocal_ranks(other))
    write_json(folder / COMPARISON, {"against": against, "metric": "mrr", "policy": "realistic", **asdict(found)})


def _reciprocal_ranks(result: LinkPredictionResult) -> Float64s:
    """(n,): what each triple contributes to the MRR, the mean of its two sides."""
    mean: Float64s = (1 / result.heads.realistic + 1 / result.tails.realistic) / 2
    return mean
