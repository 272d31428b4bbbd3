"""Bootstrap intervals: how far a mean over test triples would move with another test set of the same kind."""

from __future__ import annotations

import numpy as np

from capse.arrays import Float64s

LEVEL = 0.95
RESAMPLES = 1000
_BLOCK = 1 << 22  # draws held at a time


def bootstrap_interval(values: Float64s, *, seed: int = 0) -> Float64s:
    """The 95 % percentile interval of the mean over the first axis: (n, ...) -> (2, ...), low and high.

    What must stay together in a resample, such as the head and the tail query of one triple, is averaged into one row
    first. A resample is a vector of counts, so its mean is one matrix product for all columns at once.

    >>> low, high = bootstrap_interval(np.tile([0.0, 1.0], 200))
    >>> bool(0.44 < low < 0.47), bool(0.53 < high < 0.56)
    (True, True)
    """
    n = len(values)
    columns = values.reshape(n, -1)
    generator = np.random.default_rng(seed)
    at_once = max(1, _BLOCK // n)
    means = []
    for start in range(0, RESAMPLES, at_once):
        draws = [generator.integers(n, size=n) for _ in range(min(at_once, RESAMPLES - start))]
        counts = np.array([np.bincount(drawn, minlength=n) for drawn in draws], np.float64)
        means.append(counts @ columns / n)
    tail = (1 - LEVEL) / 2
    interval = np.quantile(np.concatenate(means), [tail, 1 - tail], axis=0)
    return interval.reshape(2, *values.shape[1:])
