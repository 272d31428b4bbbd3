"""Two runs that served at once: which of them was better, by what their users did.

A/B: every user had lists of one run. Each figure is the mean of b's lists minus that of a's, with an interval and a
test over users, who were dealt, not over lists, which were not. One figure decides, the MRR of what was shown, and it
is the same for every trial: who looks at many and takes the one that differs finds differences that are not there.

Interleaved: every list had documents of both. A list prefers the run of which more documents were clicked; what decides
is the mean of these preferences, from -1 (a) to 1 (b), over users likewise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from capse.arrays import Float64s
from capse.errors import DataError
from capse.evaluation.clusters import cluster_difference, cluster_interval, cluster_p_value
from capse.search.evaluation.comparison import SIGNIFICANT

LEAST_USERS = 10  # of each run, or who had interleaved lists
UNEVEN = 0.001  # below this probability the dealing itself went wrong

FIGURES = ("mrr", "clicked", "worth")
_WAIT = f"wait until there are {LEAST_USERS}"


@dataclass(frozen=True, slots=True)
class ListOutcome:
    """What a user did with a list."""

    user: int
    arm: str  # a or b; of an interleaved list one letter for each place
    clicked: tuple[int, ...]  # ranks, as it was shown, of what has a satisfied click
    worth: float  # by the weights of what was done with its documents


@dataclass(frozen=True)
class ArmFigures:
    """Means over the lists of a run."""

    lists: int
    users: int
    mrr: float  # of the first satisfied click in the order shown; 0 where there is none
    clicked: float  # share of lists with a satisfied click
    worth: float


@dataclass(frozen=True)
class Difference:
    """b minus a."""

    mean: float
    low: float  # 95 % bootstrap interval, users being drawn
    high: float
    p_value: float  # two-sided, with users as clusters


@dataclass(frozen=True)
class TwoRuns:
    """What came of a trial."""

    interleaved: bool
    lists: int
    users: int
    arms: dict[str, ArmFigures]  # empty where lists were interleaved
    differences: dict[str, Difference]
    decided_by: str
    better: Literal["a", "b"] | None  # None: neither is shown to be
    uneven: float  # probability of so uneven a dealing of users, if all went as was said

    @property
    def verdict(self) -> str:
        """In words."""
        decides = self.differences[self.decided_by]
        said = "neither is shown to be better" if self.better is None else f"{self.better} is better"
        return (
            f"{said}: {self.decided_by} of b minus a is {decides.mean:+.4f} "
            f"(95 % over users {decides.low:+.4f} to {decides.high:+.4f}, p = {decides.p_value:.2g})"
        )


def compare_arms(outcomes: Sequence[ListOutcome], share: float) -> TwoRuns:
    """Of users who each had lists of one run; ``share`` is that of users who were to get b."""
    by_arm = {arm: [one for one in outcomes if one.arm == arm] for arm in "ab"}
    arms = {arm: _figures(of) for arm, of in by_arm.items()}
    for arm, of in arms.items():
        if of.users < LEAST_USERS:
            raise DataError(f"{of.users} users had lists of run {arm}", _WAIT)
    users = {arm: np.array([one.user for one in of]) for arm, of in by_arm.items()}
    differences = {}
    for place, name in enumerate(FIGURES):
        first, second = (_values(by_arm[arm])[:, place] for arm in "ab")
        (low, high), p_value = cluster_difference(first, users["a"], second, users["b"])
        differences[name] = Difference(float(second.mean() - first.mean()), float(low), float(high), p_value)
    uneven = _unevenness(arms["a"].users, arms["b"].users, share)
    return _result(outcomes, arms, differences, "mrr", uneven)


def compare_interleaved(outcomes: Sequence[ListOutcome]) -> TwoRuns:
    """Of lists that had documents of both runs."""
    users = np.array([one.user for one in outcomes])
    if (count := len(set(users.tolist()))) < LEAST_USERS:
        raise DataError(f"{count} users had interleaved lists", _WAIT)
    preferred = np.array([preference(one) for one in outcomes])
    low, high = cluster_interval(preferred, users)
    found = Difference(float(preferred.mean()), float(low), float(high), cluster_p_value(preferred, users))
    return _result(outcomes, {}, {"preference": found}, "preference", 1.0)


def preference(one: ListOutcome) -> float:
    """1 where more documents of b were clicked than of a, −1 where fewer.

    >>> preference(ListOutcome(0, "abba", clicked=(2, 3, 4), worth=3.0)), preference(ListOutcome(0, "ab", (), 0.0))
    (1.0, 0.0)
    """
    of = [one.arm[rank - 1] for rank in one.clicked]
    return float(np.sign(of.count("b") - of.count("a")))


def _result(
    outcomes: Sequence[ListOutcome],
    arms: dict[str, ArmFigures],
    differences: dict[str, Difference],
    decided_by: str,
    uneven: float,
) -> TwoRuns:
    decides = differences[decided_by]
    sure = decides.p_value < SIGNIFICANT and uneven >= UNEVEN
    better: Literal["a", "b"] | None = ("b" if decides.mean > 0 else "a") if sure else None
    users = len({one.user for one in outcomes})
    return TwoRuns(not arms, len(outcomes), users, arms, differences, decided_by, better, uneven)


def _values(outcomes: Sequence[ListOutcome]) -> Float64s:
    """(n, figures)"""
    rows = [(1 / one.clicked[0] if one.clicked else 0.0, float(bool(one.clicked)), one.worth) for one in outcomes]
    return np.array(rows, np.float64).reshape(len(rows), len(FIGURES))


def _figures(outcomes: Sequence[ListOutcome]) -> ArmFigures:
    means = _values(outcomes).mean(axis=0).tolist() if outcomes else [0.0] * len(FIGURES)
    return ArmFigures(len(outcomes), len({one.user for one in outcomes}), *means)


def _unevenness(a: int, b: int, share: float) -> float:
    """Of a fair deal, the probability of a share as far off as this."""
    spread = math.sqrt((a + b) * share * (1 - share))
    return math.erfc(abs(b - (a + b) * share) / spread / math.sqrt(2))
