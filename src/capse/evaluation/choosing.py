"""Probabilities and thresholds for groups of judgements, chosen where the truth is known.

Scores (n,) belong to groups (n,), such as the relations of triples. Each group gets a logistic curve of its own, drawn
towards that of all, and a threshold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from capse.arrays import Bools, Float64s, Int64s
from capse.errors import SettingsError
from capse.evaluation.judgements import Judgements

LEAST_FOR_A_THRESHOLD = 10  # judgements of a group
PRIORS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # strengths to choose from
_FOLDS = 5
_STEPS = 30  # of Newton's method
_LEAST_SLOPE = 0.05  # of the slope of all


@dataclass(frozen=True)
class Curves:
    """p(s) = 1 / (1 + exp(−(slope·s + intercept))) of all, and of each group."""

    slope: float
    intercept: float
    slopes: Float64s
    intercepts: Float64s

    def probability(self, scores: Float64s, groups: Int64s) -> Float64s:
        return sigmoid(self.slopes[groups] * scores + self.intercepts[groups])

    def over(self, centre: float, spread: float) -> Curves:
        """The same over scores, where these are over (score − centre) / spread."""
        intercepts = self.intercepts - self.slopes * centre / spread
        intercept = self.intercept - self.slope * centre / spread
        return Curves(self.slope / spread, intercept, self.slopes / spread, intercepts)


@dataclass(frozen=True)
class Choice:
    """What was chosen on judgements (n,), and how it does on held-out fifths of them."""

    curves: Curves
    prior: float
    threshold: float  # one for all
    thresholds: Float64s  # of each group
    held_out: Judgements


@dataclass(frozen=True)
class _Known:
    """Judgements whose truth is known."""

    scores: Float64s
    groups: Int64s
    true: Bools
    count: int  # of groups

    def __getitem__(self, here: Bools) -> _Known:
        return _Known(self.scores[here], self.groups[here], self.true[here], self.count)


def choose(scores: Float64s, groups: Int64s, true: Bools, count: int, seed: int = 0) -> Choice:
    """Curves and thresholds for ``count`` groups.

    How strongly groups are drawn together is chosen by the likelihood of held-out fifths. A group's threshold is either
    the one that judges most of its own rightly, where it has enough, or where its curve is one half: whichever of the
    two ways judges more of the held-out fifths rightly.
    """
    if np.ptp(scores) == 0:
        raise SettingsError("the model gives all of these triples the same score", "train it before calibrating")
    centre, spread = float(scores.mean()), float(scores.std())
    known = _Known((scores - centre) / spread, groups, true, count)
    folds = np.random.default_rng(seed).permutation(len(scores)) % _FOLDS
    losses = {prior: sum(_surprise(known, folds, prior)) for prior in PRIORS}
    prior = min(losses, key=lambda strength: losses[strength])
    tried = [_held_out(known, folds, prior, counted=counted) for counted in (True, False)]
    counted = tried[0].by_relation.accuracy >= tried[1].by_relation.accuracy
    curves = fit_curves(known.scores, groups, true, count, prior)
    threshold, thresholds = _thresholds(known, curves, counted=counted)
    held_out = tried[0 if counted else 1]
    return Choice(
        curves.over(centre, spread), prior, centre + spread * threshold, centre + spread * thresholds, held_out
    )


def _surprise(known: _Known, folds: Int64s, prior: float) -> Iterator[float]:
    """Of each fold −Σ log p of its truths."""
    for fold in range(_FOLDS):
        rest, here = known[folds != fold], known[folds == fold]
        curves = fit_curves(rest.scores, rest.groups, rest.true, rest.count, prior)
        z = curves.slopes[here.groups] * here.scores + curves.intercepts[here.groups]
        yield float(np.logaddexp(0, np.where(here.true, -z, z)).sum())


def _held_out(known: _Known, folds: Int64s, prior: float, *, counted: bool) -> Judgements:
    """Each fold judged by what the others say."""
    p = np.empty(len(known.scores))
    said, simply = np.empty(len(p), bool), np.empty(len(p), bool)
    for fold in range(_FOLDS):
        here, rest = folds == fold, known[folds != fold]
        curves = fit_curves(rest.scores, rest.groups, rest.true, rest.count, prior)
        threshold, thresholds = _thresholds(rest, curves, counted=counted)
        scores, groups = known.scores[here], known.groups[here]
        p[here] = curves.probability(scores, groups)
        said[here], simply[here] = scores >= thresholds[groups], scores >= threshold
    return Judgements.of(known.scores, p, said, simply, known.true)


def fit_curves(scores: Float64s, groups: Int64s, true: Bools, count: int, prior: float) -> Curves:
    """The curve of all, then of each group around it; slopes are positive.

    Minimises Σ log(1 + exp(∓z)) + prior/2 Σ_g ((a_g − a)² + (b_g − b)²) by Newton's method, all groups at once.
    """
    everyone = np.zeros(len(scores), np.int64)
    (slope,), (intercept,) = _newton(scores, everyone, true, np.zeros(1), np.zeros(1), 1e-3)
    if slope <= 0:
        raise SettingsError("the model does not score true triples higher than false ones", "train it longer")
    slopes, intercepts = _newton(scores, groups, true, np.full(count, slope), np.full(count, intercept), prior)
    return Curves(float(slope), float(intercept), np.maximum(slopes, _LEAST_SLOPE * slope), intercepts)


def _newton(
    x: Float64s, groups: Int64s, true: Bools, slope: Float64s, intercept: Float64s, prior: float
) -> tuple[Float64s, Float64s]:
    """Slopes and intercepts (G,) around ``slope`` and ``intercept`` (G,)."""
    a, b = slope, intercept

    def total(values: Float64s) -> Float64s:
        return np.bincount(groups, weights=values, minlength=len(slope)).astype(np.float64)

    for _ in range(_STEPS):
        p = sigmoid(a[groups] * x + b[groups])
        residual, weight = p - true, np.maximum(p * (1 - p), 1e-9)
        gradient_a, gradient_b = total(residual * x) + prior * (a - slope), total(residual) + prior * (b - intercept)
        aa, ab, bb = total(weight * x * x) + prior, total(weight * x), total(weight) + prior
        determinant = aa * bb - ab * ab
        step_a = (bb * gradient_a - ab * gradient_b) / determinant
        step_b = (aa * gradient_b - ab * gradient_a) / determinant
        size = np.maximum(1.0, np.hypot(step_a, step_b) / 2)  # no step longer than 2, so that it cannot run away
        a, b = a - step_a / size, b - step_b / size
        if max(np.abs(step_a).max(), np.abs(step_b).max()) < 1e-9:
            break
    return a, b


def _thresholds(known: _Known, curves: Curves, *, counted: bool) -> tuple[float, Float64s]:
    """The threshold for all, and for each group: its own best where it has enough, or where its curve is one half."""
    overall = best_threshold(known.scores, known.true)
    if not counted:
        return overall, -curves.intercepts / curves.slopes
    thresholds = np.full(known.count, overall)
    for group in np.flatnonzero(np.bincount(known.groups, minlength=known.count) >= LEAST_FOR_A_THRESHOLD):
        here = known.groups == group
        thresholds[group] = best_threshold(known.scores[here], known.true[here])
    return overall, thresholds


def best_threshold(scores: Float64s, true: Bools) -> float:
    """Half-way between two scores, so that most are judged rightly; in the middle of several that are as good.

    >>> best_threshold(np.array([1.0, 2.0, 3.0, 5.0]), np.array([False, False, True, True]))
    2.5
    """
    order = np.argsort(scores, kind="stable")
    values, truth = scores[order], true[order]
    right = np.concatenate([[truth.sum()], truth.sum() + np.cumsum(np.where(truth, -1, 1))])  # with i below it
    between = np.concatenate([[True], np.diff(values) > 0, [True]])  # no threshold divides equals
    best = np.flatnonzero(between & (right == right[between].max()))
    place = int(best[len(best) // 2])
    if place == 0:
        return float(values[0])
    if place == len(values):
        return float(np.nextafter(values[-1], np.inf))
    return float((values[place - 1] + values[place]) / 2)


def sigmoid(z: Float64s) -> Float64s:
    return np.asarray(np.exp(-np.logaddexp(0, -z)))
