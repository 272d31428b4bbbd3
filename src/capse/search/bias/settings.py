"""Which propensities, and the weights that they give to clicks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from capse.arrays import Float64s, Int64s
from capse.errors import DataError, SettingsError
from capse.runs.settings import Section
from capse.search.bias.cascade_model import CascadeModel
from capse.search.bias.position_model import PositionModel
from capse.search.logs.search_log import SearchLog

NONE, POSITION, CASCADE = "none", "position", "cascade"


class Propensities(Protocol):
    """With which probability the results of a log were looked at."""

    def of(self, log: SearchLog) -> Float64s:
        """(m,) for every result, above 0 and up to 1."""


@dataclass(frozen=True)
class PositionBias(Section):
    """What is done about clicks that are biased by position.

    >>> PositionBias("position").corrects, PositionBias("1, 0.6, 0.3").corrects, PositionBias().corrects
    (True, True, False)
    """

    model: str = NONE
    """`none` takes every click for one; `position` and `cascade` estimate from the log where people look; or the
    propensities of an experiment of your own, from the first place on, between commas"""
    clip: float = 10.0  # the largest weight of a click: what a rare click deep down may count for

    def __post_init__(self) -> None:
        if not np.isfinite(self.clip) or self.clip < 1:
            raise SettingsError(f"bias.clip is {self.clip}", "choose 1 or more; 1 takes every click for one")
        if self.model not in (NONE, POSITION, CASCADE):
            _numbers(self.model)

    @property
    def corrects(self) -> bool:
        return self.model != NONE

    def weights(self, log: SearchLog, impressions: Int64s) -> Float64s | None:
        """(m,) what a click on each result counts for, estimated on these lists; None where each counts for one."""
        if not self.corrects:
            return None
        return inverse(propensities(self, log, impressions).of(log), self.clip)


def propensities(bias: PositionBias, log: SearchLog, impressions: Int64s) -> Propensities:
    """Estimated from the clicks on these lists, unless they are given."""
    if bias.model == CASCADE:
        return CascadeModel.fit(log, impressions)
    if bias.model == POSITION:
        return PositionModel.fit(log, impressions)
    return PositionModel(_numbers(bias.model))


def inverse(looked: Float64s, clip: float) -> Float64s:
    """min(1 / e, clip) for each propensity e.

    >>> inverse(np.array([1.0, 0.5, 0.01]), 10.0)
    array([ 1.,  2., 10.])
    """
    wrong = ~((looked > 0) & (looked <= 1))  # NaN too
    if wrong.any():
        raise DataError(f"a propensity is {looked[wrong][0]}", "a probability is above 0 and up to 1")
    return np.minimum(1 / looked, clip)


def _numbers(text: str) -> Float64s:
    try:
        found = np.array([float(part) for part in text.split(",")])
    except ValueError:
        remedy = f"choose {NONE}, {POSITION} or {CASCADE}, or write propensities between commas, as in '1, 0.6, 0.4'"
        raise SettingsError(f"bias.model is {text!r}", remedy) from None
    if not ((found > 0) & (found <= 1)).all():
        remedy = "write probabilities above 0 and up to 1, from the first place on"
        raise SettingsError(f"bias.model has a propensity that is none: {text!r}", remedy)
    return found
