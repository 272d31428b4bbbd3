"""Is one model better than another on the same triples, or was it luck?"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import stdtr

from capse.arrays import Float64s
from capse.evaluation.intervals import bootstrap_interval


@dataclass(frozen=True)
class PairedComparison:
    """First minus second, over the same triples."""

    difference: float
    low: float  # 95 % bootstrap interval of the difference
    high: float
    p_value: float  # two-sided paired t-test of 'no difference'


def compare(first: Float64s, second: Float64s, *, seed: int = 0) -> PairedComparison:
    """Compare two models by what each test triple contributes to a metric, (n,) and (n,) in the same order.

    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> luck = generator.random(1000)
    >>> result = compare(luck + 0.1, luck + generator.normal(0, 0.1, 1000))
    >>> round(result.difference, 2), result.low > 0.09, result.p_value < 1e-9
    (0.1, True, True)
    """
    if first.shape != second.shape or len(first) < 2:
        raise ValueError(f"{len(first)} and {len(second)} triples cannot be paired")
    difference = first - second
    low, high = bootstrap_interval(difference, seed=seed)
    mean = float(difference.mean())
    error = float(difference.std(ddof=1)) / math.sqrt(len(difference))
    t = abs(mean) / error if error else math.inf if mean else 0.0
    return PairedComparison(mean, float(low), float(high), p_value=float(2 * stdtr(len(difference) - 1, -t)))
