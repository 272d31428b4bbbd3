"""From the vectors of a candidate's k dimensions to its score, in compiled loops: see `reference` for the formulas."""

from __future__ import annotations

import math
from typing import NamedTuple

from capse.kernels.cpu.lanes import first, load, times, total, widen
from capse.kernels.cpu.loops import inlined
from capse.kernels.cpu.routing import route, routing_buffers
from capse.kernels.cpu.squash import squash_factor

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

    From the summed vector on, the arithmetic is float64's, and the score is rounded once. Votes are routed in their own
    precision.
    """
    width = (d + len(lanes) - 1) // len(lanes) * len(lanes)
    if form.kind == VOTES:
        each = k * d if form.routing > 1 else len(results)
        for place in range(len(results) // each):
            _copy(vectors[place * stride :], d, width, results[place * each : (place + 1) * each])
        return
    buffers = routing_buffers(k if form.routing > 1 else 0, d, width, vectors.dtype)
    for place in range(len(results)):
        start = place * stride
        if form.kind == LINEAR:
            results[place] = vectors[start]
            continue
        if form.routing > 1:
            square = route(vectors, start, k, width, lanes, form.routing, form.scale, form.epsilon, buffers)
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
def _squared_length(vectors, start, d, lanes):  # type: ignore[no-untyped-def]
    square = 0.0
    for lane in range(0, d, len(lanes)):
        numbers = widen(first(load(vectors, start + lane, lanes), d - lane))
        square += total(times(numbers, numbers))
    return square
