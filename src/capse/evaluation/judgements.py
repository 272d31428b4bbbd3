"""How good yes-or-no judgements are: of scores, of probabilities, and of decisions made from them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from capse.arrays import Bools, Float64s

BINS = 10


def brier_score(probabilities: Float64s, true: Bools) -> float:
    """The mean of (p − truth)².

    >>> brier_score(np.array([1.0, 0.5]), np.array([True, False]))
    0.125
    """
    return float(((probabilities - true) ** 2).mean())


def expected_calibration_error(probabilities: Float64s, true: Bools) -> float:
    """Σ over ten equal bins of p: (share of triples in the bin) · |mean p − share of true triples in the bin|.

    >>> round(expected_calibration_error(np.array([0.95, 0.95, 0.1]), np.array([True, True, False])), 4)  # 0.2 / 3
    0.0667
    """
    surplus = np.bincount(_bin_of(probabilities), weights=probabilities - true, minlength=BINS)
    return float(np.abs(surplus).sum() / len(true))


@dataclass(frozen=True)
class ReliabilityBin:
    """The judgements whose probability lies in one of ten equal bins."""

    judgements: int
    mean_probability: float
    share_true: float


def reliability(probabilities: Float64s, true: Bools) -> list[ReliabilityBin]:
    """The bins that hold any judgement, by rising probability.

    >>> reliability(np.array([0.9, 0.95, 0.1]), np.array([True, False, False]))[1].share_true
    0.5
    """
    bins = _bin_of(probabilities)
    return [
        ReliabilityBin(int(here.sum()), float(probabilities[here].mean()), float(true[here].mean()))
        for here in (bins == number for number in range(BINS))
        if here.any()
    ]


def area_under_curve(scores: Float64s, true: Bools) -> float:
    """The chance that a true one scores higher than a false one, ties counting half (Mann and Whitney 1947).

    >>> area_under_curve(np.array([3.0, 1.0, 2.0, 1.0]), np.array([True, True, False, False]))
    0.625
    """
    positives, negatives = int(true.sum()), int((~true).sum())
    if not positives or not negatives:
        return float("nan")
    above = rankdata(scores)[true].sum() - positives * (positives + 1) / 2
    return float(above / (positives * negatives))


def average_precision(scores: Float64s, true: Bools) -> float:
    """Σ (recall gained) · precision over falling scores, those of one score taken together.

    >>> average_precision(np.array([4.0, 3.0, 2.0]), np.array([True, False, True])).__round__(4)
    0.8333
    """
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(true[order])
    last = np.append(np.diff(scores[order]) != 0, True)  # the last of those of one score
    found, seen = hits[last], np.flatnonzero(last) + 1
    if not found[-1]:
        return float("nan")
    return float((np.diff(found, prepend=0) / found[-1] * found / seen).sum())


@dataclass(frozen=True)
class Decisions:
    """How good decisions are; fractions, precision, recall and F1 of what is said to be true."""

    accuracy: float
    precision: float
    recall: float
    f1: float

    @classmethod
    def judge(cls, said: Bools, true: Bools) -> Decisions:
        """Decisions against the truth.

        >>> Decisions.judge(np.array([True, True, False]), np.array([True, False, False])).f1.__round__(3)
        0.667
        """
        both = float((said & true).sum())
        precision = both / said.sum() if said.any() else 0.0
        recall = both / true.sum() if true.any() else 0.0
        f1 = 2 * precision * recall / (precision + recall) if both else 0.0
        return cls(float((said == true).mean()), float(precision), float(recall), float(f1))


@dataclass(frozen=True)
class Judgements:
    """All of it for one set of triples, half of them true or not."""

    triples: int
    true: int
    auc: float | None  # None where all are true or all false
    average_precision: float | None
    by_relation: Decisions  # with a threshold for each relation
    one_threshold: Decisions  # with one for all
    brier_score: float
    expected_calibration_error: float
    mean_probability_true: float | None
    mean_probability_false: float | None
    reliability: list[ReliabilityBin]

    @classmethod
    def of(cls, scores: Float64s, probabilities: Float64s, said: Bools, simply: Bools, true: Bools) -> Judgements:
        """From scores, probabilities, decisions by relation and by one threshold, and the truth, each (n,)."""
        known = bool(true.any() and not true.all())
        return cls(
            triples=len(true),
            true=int(true.sum()),
            auc=area_under_curve(scores, true) if known else None,
            average_precision=average_precision(scores, true) if known else None,
            by_relation=Decisions.judge(said, true),
            one_threshold=Decisions.judge(simply, true),
            brier_score=brier_score(probabilities, true),
            expected_calibration_error=expected_calibration_error(probabilities, true),
            mean_probability_true=float(probabilities[true].mean()) if true.any() else None,
            mean_probability_false=float(probabilities[~true].mean()) if not true.all() else None,
            reliability=reliability(probabilities, true),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _bin_of(probabilities: Float64s) -> Any:
    return np.minimum((probabilities * BINS).astype(np.int64), BINS - 1)
