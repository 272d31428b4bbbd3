"""Dynamic routing of one candidate's votes û_i ∈ R^d, in compiled loops.

    b_i = û_i·v,  v the sum of all outputs so far          agreement
    c   = scale·softmax(b)                                 couplings, all of them scale/k at first
    s   = Σ_i c_i û_i                                      v then grows by squash(s)

The votes are first turned, so that each of their d numbers has a row of its own: every lane is then a capsule, and all
of it stays in the nearest cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from capse.kernels.cpu.exponential import exp
from capse.kernels.cpu.lanes import (
    largest,
    load,
    maximum,
    minus,
    plus,
    spread,
    store,
    times_plus,
    total,
    transpose,
    widen,
    zeros,
)
from capse.kernels.cpu.loops import aligned, inlined
from capse.kernels.cpu.squash import squash_factor

Floats = npt.NDArray[np.floating[Any]]

CAPSULES = (0,) * 16  # the lanes in which they are taken


class Buffers(NamedTuple):
    """What routing needs for one candidate, k' being k in whole groups of lanes."""

    rows: Floats  # the votes' first numbers, their second ones and so on, (width, k'), flat
    logits: Floats  # before agreement: 0, and −∞ for what pads k, (k',)
    couplings: Floats  # (k',)
    outputs: Floats  # v, (d,)
    routed: npt.NDArray[np.float64]  # s, (d,)


@inlined
def padded(k):  # type: ignore[no-untyped-def]
    """k in whole groups of lanes."""
    return (k + len(CAPSULES) - 1) // len(CAPSULES) * len(CAPSULES)


@inlined
def padded_votes(k, width, lanes):  # type: ignore[no-untyped-def]
    """How far a candidate's votes are from the next one's: an odd number of groups of lanes.

    Else those of one dimension, which are made one after another, would all fall on the same few places of a cache.
    """
    return padded(k) * width + len(lanes)


@inlined
def routing_buffers(k, d, width, dtype):  # type: ignore[no-untyped-def]
    size = padded(k)
    logits = aligned(size, dtype)
    logits[k:] = -np.inf
    return Buffers(aligned(width * size, dtype), logits, aligned(size, dtype), np.empty(d, dtype), np.empty(d))


@inlined
def route(votes, start, k, width, lanes, iterations, scale, epsilon, buffers):  # type: ignore[no-untyped-def]
    """‖s‖² of a candidate's votes, ``width`` apart from ``votes[start]`` on, with zeros up to where k is padded to."""
    padded_k = len(buffers.logits)
    if len(lanes) == 1:
        buffers.rows[:] = votes[start : start + padded_k]
    else:
        for i in range(0, padded_k, len(CAPSULES)):
            for c in range(0, len(buffers.outputs), 4):
                transpose(votes, start + i * width + c, width, buffers.rows, c * padded_k + i, padded_k, CAPSULES)
    buffers.couplings[:] = 1
    square = _weigh(buffers, scale / k)
    buffers.outputs[:] = 0
    for _ in range(1, iterations):
        factor = squash_factor(square, epsilon)
        for c in range(len(buffers.outputs)):
            buffers.outputs[c] += buffers.routed[c] * factor
        square = _weigh(buffers, scale / _couple(buffers))
    return square


@inlined
def _couple(buffers):  # type: ignore[no-untyped-def]
    """Fill in the couplings but for a factor, the reciprocal of their sum; the result is that sum."""
    padded_k = len(buffers.logits)
    most = spread(buffers.logits.dtype.type(-np.inf), CAPSULES)
    for i in range(0, padded_k, len(CAPSULES)):
        logits = load(buffers.logits, i, CAPSULES)
        for c in range(len(buffers.outputs)):
            logits = times_plus(load(buffers.rows, c * padded_k + i, CAPSULES), buffers.outputs[c], logits)
        store(buffers.couplings, i, logits)
        most = maximum(most, logits)
    shift, sum_ = spread(largest(most), CAPSULES), zeros(buffers.couplings, CAPSULES)
    for i in range(0, padded_k, len(CAPSULES)):
        couplings = exp(minus(load(buffers.couplings, i, CAPSULES), shift))
        store(buffers.couplings, i, couplings)
        sum_ = plus(sum_, couplings)
    return total(widen(sum_))


@inlined
def _weigh(buffers, factor):  # type: ignore[no-untyped-def]
    """s = factor · Σ_i couplings_i û_i, and ‖s‖²."""
    square, padded_k = 0.0, len(buffers.logits)
    for c in range(len(buffers.routed)):
        sum_ = zeros(buffers.rows, CAPSULES)
        for i in range(0, padded_k, len(CAPSULES)):
            rows = load(buffers.rows, c * padded_k + i, CAPSULES)
            sum_ = times_plus(rows, load(buffers.couplings, i, CAPSULES), sum_)
        buffers.routed[c] = total(widen(sum_)) * factor
        square += buffers.routed[c] * buffers.routed[c]
    return square
