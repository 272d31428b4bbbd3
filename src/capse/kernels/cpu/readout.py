"""From the vectors of a candidate's k dimensions to its score, in compiled loops: see `reference` for the formulas."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from capse.kernels.cpu.lanes import load, store, times_plus, zeros
from capse.kernels.cpu.loops import inlined

LINEAR, PAPER, RELEASED = 0, 1, 2
KINDS = {"linear": LINEAR, "paper": PAPER, "released": RELEASED}


class Form(NamedTuple):
    """How the vectors of the k dimensions become a score."""

    kind: int
    sigmoid: bool
    routing: int
    scale: float  # of the couplings; with one routing iteration it holds their 1/k too
    epsilon: float  # in squash


@inlined
def read_out(vectors, k, d, stride, lanes, form, scores):  # type: ignore[no-untyped-def]
    """The scores of a tile's candidates, whose summed vectors, or votes to be routed, stand ``stride`` apart.

    From the summed vector on, the arithmetic is float64's, and the score is rounded once.
    """
    logits, couplings = np.empty(k, vectors.dtype), np.empty(k, vectors.dtype)
    routed = np.empty(stride, vectors.dtype)
    for place in range(len(scores)):
        start = place * stride
        if form.kind == LINEAR:
            scores[place] = vectors[start]
            continue
        if form.routing > 1:
            _route(vectors, start, d, stride // k, lanes, form, logits, couplings, routed)
            square = _squared_length(routed, 0, d)
        else:
            square = _squared_length(vectors, start, d) * form.scale * form.scale
        if form.kind == PAPER:
            scores[place] = square / (1 + square)
        else:
            scores[place] = math.sqrt(square * squash_factor(square, form.epsilon) ** 2 + form.epsilon)
        if form.sigmoid:
            one = scores.dtype.type(1)
            scores[place] = one / (one + math.exp(-scores[place]))
        if form.kind == RELEASED:
            scores[place] = -scores[place]


@inlined
def squash_factor(square, epsilon):  # type: ignore[no-untyped-def]
    """What squash multiplies a vector of this squared length by: ‖s‖² / (1 + ‖s‖²) / √(‖s‖² + ε), and 0 at 0."""
    if square == 0:
        return square
    return square / ((type(square)(1) + square) * math.sqrt(square + epsilon))


@inlined
def _squared_length(vectors, start, d):  # type: ignore[no-untyped-def]
    square = 0.0
    for c in range(start, start + d):
        square += np.float64(vectors[c]) * np.float64(vectors[c])
    return square


@inlined
def _route(votes, start, d, width, lanes, form, logits, couplings, output):  # type: ignore[no-untyped-def]
    """Dynamic routing of one candidate's votes û_i, the d numbers from ``votes[start + i·width]``, to ``output``."""
    logits[:] = 0
    for iteration in range(form.routing):
        largest = logits.max()
        total = 0.0
        for i in range(len(logits)):
            couplings[i] = math.exp(logits[i] - largest)
            total += couplings[i]
        for i in range(len(logits)):
            couplings[i] *= form.scale / total
        for lane in range(0, d, len(lanes)):
            weighted = zeros(votes, lanes)
            for i in range(len(logits)):
                weighted = times_plus(load(votes, start + i * width + lane, lanes), couplings[i], weighted)
            store(output, lane, weighted)
        if iteration < form.routing - 1:
            factor = squash_factor(_squared_length(output, 0, d), form.epsilon)
            for i in range(len(logits)):
                agreement = 0.0
                for c in range(d):
                    agreement += votes[start + i * width + c] * output[c]
                logits[i] += agreement * factor
