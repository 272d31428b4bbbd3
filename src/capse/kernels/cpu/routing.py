"""Dynamic routing of one candidate's votes û_i ∈ R^d, in compiled loops.

    b_i = û_i·v,  v the sum of all outputs so far          agreement
    c   = scale·softmax(b)                                 couplings, all of them scale/k at first
    s   = Σ_i c_i û_i                                      v then grows by squash(s)

The votes are first turned, so that each of their d numbers has a row of its own: every lane is then a capsule, and all
of it stays in the nearest cache.
"""

from __future__ import annotations

import math
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

Floats = npt.NDArray[np.floating[Any]]

CAPSULES = (0,) * 16  # the lanes in which they are taken


class Room(NamedTuple):
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
def room_for_votes(k, width, lanes):  # type: ignore[no-untyped-def]
    """How far a candidate's votes are from the next one's: an odd number of groups of lanes.

    Else those of one dimension, which are made one after another, would all fall on the same few places of a cache.
    """
    return padded(k) * width + len(lanes)


@inlined
def room_to_route(k, d, width, dtype):  # type: ignore[no-untyped-def]
    size = padded(k)
    logits = aligned(size, dtype)
    logits[k:] = -np.inf
    return Room(aligned(width * size, dtype), logits, aligned(size, dtype), np.empty(d, dtype), np.empty(d))


@inlined
def squash_factor(square, epsilon):  # type: ignore[no-untyped-def]
    """What squash multiplies a vector of this squared length by: ‖s‖² / (1 + ‖s‖²) / √(‖s‖² + ε), and 0 at 0."""
    if square == 0:
        return square
    return square / ((type(square)(1) + square) * math.sqrt(square + epsilon))


@inlined
def route(votes, start, k, width, lanes, iterations, scale, epsilon, room):  # type: ignore[no-untyped-def]
    """‖s‖² of a candidate's votes, ``width`` apart from ``votes[start]`` on, with zeros up to where k is padded to."""
    padded_k = len(room.logits)
    if len(lanes) == 1:
        room.rows[:] = votes[start : start + padded_k]
    else:
        for i in range(0, padded_k, len(CAPSULES)):
            for c in range(0, len(room.outputs), 4):
                transpose(votes, start + i * width + c, width, room.rows, c * padded_k + i, padded_k, CAPSULES)
    room.couplings[:] = 1
    square = _weigh(room, scale / k)
    room.outputs[:] = 0
    for _ in range(1, iterations):
        factor = squash_factor(square, epsilon)
        for c in range(len(room.outputs)):
            room.outputs[c] += room.routed[c] * factor
        square = _weigh(room, scale / _couple(room))
    return square


@inlined
def _couple(room):  # type: ignore[no-untyped-def]
    """Fill in the couplings but for a factor, the reciprocal of their sum; the result is that sum."""
    padded_k = len(room.logits)
    most = spread(room.logits.dtype.type(-np.inf), CAPSULES)
    for i in range(0, padded_k, len(CAPSULES)):
        logits = load(room.logits, i, CAPSULES)
        for c in range(len(room.outputs)):
            logits = times_plus(load(room.rows, c * padded_k + i, CAPSULES), room.outputs[c], logits)
        store(room.couplings, i, logits)
        most = maximum(most, logits)
    shift, sum_ = spread(largest(most), CAPSULES), zeros(room.couplings, CAPSULES)
    for i in range(0, padded_k, len(CAPSULES)):
        couplings = exp(minus(load(room.couplings, i, CAPSULES), shift))
        store(room.couplings, i, couplings)
        sum_ = plus(sum_, couplings)
    return total(widen(sum_))


@inlined
def _weigh(room, factor):  # type: ignore[no-untyped-def]
    """s = factor · Σ_i couplings_i û_i, and ‖s‖²."""
    square, padded_k = 0.0, len(room.logits)
    for c in range(len(room.routed)):
        sum_ = zeros(room.rows, CAPSULES)
        for i in range(0, padded_k, len(CAPSULES)):
            rows = load(room.rows, c * padded_k + i, CAPSULES)
            sum_ = times_plus(rows, load(room.couplings, i, CAPSULES), sum_)
        room.routed[c] = total(widen(sum_)) * factor
        square += room.routed[c] * room.routed[c]
    return square
