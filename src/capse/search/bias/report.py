"""The propensities of a log, place by place."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from capse.search.bias.cascade_model import CascadeModel
from capse.search.bias.settings import CASCADE, POSITION, PositionBias, propensities
from capse.search.logs.search_log import SearchLog

MODELS = (POSITION, CASCADE)


@dataclass(frozen=True)
class Estimate:
    """What one model says."""

    looked: list[float]  # at each place; for a cascade the mean over all lists
    continuation: float | None = None  # of a cascade: the probability of reading on after a click

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Places:
    """What a log holds for each place."""

    shown: list[int]
    clicked: list[int]


def estimate(log: SearchLog, model: str) -> Estimate:
    """With which probability each place is looked at, estimated from all lists of a log."""
    fitted = propensities(PositionBias(model), log, np.arange(len(log)))
    shown, looked = np.bincount(log.rank - 1), np.bincount(log.rank - 1, fitted.of(log))
    return Estimate(
        (looked / np.maximum(shown, 1)).tolist(),
        fitted.continuation if isinstance(fitted, CascadeModel) else None,
    )


def places_of(log: SearchLog) -> Places:
    place = log.rank - 1
    clicked = np.bincount(place[log.clicked], minlength=int(place.max()) + 1)
    return Places(np.bincount(place).tolist(), clicked.tolist())
