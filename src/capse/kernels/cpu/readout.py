"""From the vectors of a candidate's k dimensions to its score, in compiled loops: see `reference` for the formulas."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from capse.kernels.cpu.lanes import first, load, store, times, times_plus, total, widen, zeros
from capse.kernels.cpu.loops import inlined

VOTES, LINEAR, LENGTH, PAPER, RELEASED = 0, 1, 2, 3, 4  # VOTES: no score, but the vectors themselves
KINDS = {"linear": LINEAR, "length": LENGTH, "paper": PAPER, "released": RELEASED}


class Form(NamedTuple):
    """What becomes of the vectors of the k dimensions."""

    kind: int
    sigmoid: bool
    routing: int
    scale: float  # of the couplings; with one routing iteration it holds their 1/k too
    epsilon: float  # in squash


@inlined
def read_out(vectors, k, d, stride, lanes, form, results):  # type: ignore[no-untyped-def]
    """The scores of a tile's candidates, whose summed vectors, or votes to be routed, stand ``stride`` apart.

    From the summed vector on, the arithmetic is float64's, and the score is rounded once.
    """
    if form.kind == VOTES:
        _copy(vectors, d, stride // k if form.routing > 1 else stride, results)
        return
    couplings, routed, outputs = np.empty(k, vectors.dtype), np.empty(stride, vectors.dtype), np.empty(d)
    for place in range(len(results)):
        start = place * stride
        if form.kind == LINEAR:
            results[place] = vectors[start]
            continue
        if form.routing > 1:
            _route(vectors, start, d, stride // k, lanes, form, couplings, routed, outputs)
            square = _squared_length(routed, 0, d, lanes)
        else:
            square = _squared_length(vectors, start, d, lanes) * form.scale * form.scale
        if form.kind == LENGTH:
            results[place] = math.sqrt(square)
        elif form.kind == PAPER:
            results[place] = square / (1 + square)
        else:
            results[place] = math.sqrt(square * squash_factor(square, form.epsilon) ** 2 + form.epsilon)
        if form.sigmoid:
            one = results.dtype.type(1)
            results[place] = one / (one + math.exp(-results[place]))
        if form.kind == RELEASED:
            results[place] = -results[place]


@inlined
def _copy(vectors, d, width, results):  # type: ignore[no-untyped-def]
    """Without what pads d numbers to ``width``."""
    for vector in range(len(results) // d):
        for c in range(d):
            results[vector * d + c] = vectors[vector * width + c]


@inlined
def squash_factor(square, epsilon):  # type: ignore[no-untyped-def]
    """What squash multiplies a vector of this squared length by: ‖s‖² / (1 + ‖s‖²) / √(‖s‖² + ε), and 0 at 0."""
    if square == 0:
        return square
    return square / ((type(square)(1) + square) * math.sqrt(square + epsilon))


@inlined
def _squared_length(vectors, start, d, lanes):  # type: ignore[no-untyped-def]
    square = 0.0
    for lane in range(0, d, len(lanes)):
        numbers = widen(first(load(vectors, start + lane, lanes), d - lane))
        square += total(times(numbers, numbers))
    return square


@inlined
def _route(votes, start, d, width, lanes, form, couplings, routed, outputs):  # type: ignore[no-untyped-def]
    """Dynamic routing of one candidate's votes û_i, the d numbers from ``votes[start + i·width]``, to ``routed``.

    Agreement adds up over iterations, so that b_i = û_i·v, v being the sum of all ``outputs`` so far.
    """
    outputs[:] = 0
    for _ in range(form.routing):
        largest = -np.inf
        for i in range(len(couplings)):
            agreement = 0.0
            for c in range(d):
                agreement += votes[start + i * width + c] * outputs[c]
            couplings[i] = agreement
            largest = max(largest, couplings[i])
        total = 0.0
        for i in range(len(couplings)):
            couplings[i] = math.exp(couplings[i] - largest)
            total += couplings[i]
        for i in range(len(couplings)):
            couplings[i] *= form.scale / total
        for lane in range(0, d, len(lanes)):
            weighted = zeros(votes, lanes)
            for i in range(len(couplings)):
                weighted = times_plus(load(votes, start + i * width + lane, lanes), couplings[i], weighted)
            store(routed, lane, weighted)
        factor = squash_factor(_squared_length(routed, 0, d, lanes), form.epsilon)
        for c in range(d):
            outputs[c] += routed[c] * factor
