"""Sums over the candidates in each piece of a column, and from them each filter's: see `gradient`."""

from __future__ import annotations

import numpy as np

from capse.kernels.cpu.lanes import load, plus, store, times, times_plus, total, widen, zeros
from capse.kernels.cpu.loops import inlined
from capse.kernels.cpu.sorting import ONE
from capse.kernels.cpu.squash import squash_factor, squash_slope

RUN = 256  # candidates added up before the sum is put to the others of its piece: a longer sum is less accurate


@inlined
def gather(entries, places, ends, anchors, rows, lanes, vectors, width, sums, of_entries):  # type: ignore[no-untyped-def]
    """Each piece's Σ G and Σ (x − anchor) G, in two groups of lanes."""
    position = np.uint64(0)
    for piece in range(len(ends)):
        end, anchor, slope = np.uint64(ends[piece]), anchors[piece], load(rows, piece * len(lanes), lanes)
        while position < end:
            stop = min(end, position + RUN)
            sum_, moment = zeros(sums, lanes), zeros(sums, lanes)
            while position < stop:
                vector = load(vectors, np.uint64(places[position]) * width, lanes)
                of_entries[position] += total(times(vector, slope))
                sum_, moment = plus(sum_, vector), times_plus(vector, entries[position] - anchor, moment)
                position += ONE
            _add_pair(sums, piece * 2 * len(lanes), sum_, moment, lanes)


@inlined
def gather_squashed(  # type: ignore[no-untyped-def]
    entries, places, ends, anchors, rows, lanes, vectors, width, factors, sums, of_entries, of_factors
):
    """The same with G times the squash factor, and the gradient F·G of that."""
    position = np.uint64(0)
    for piece in range(len(ends)):
        end, anchor, row = np.uint64(ends[piece]), anchors[piece], piece * 2 * len(lanes)
        value, slope = load(rows, row, lanes), load(rows, row + len(lanes), lanes)
        while position < end:
            stop = min(end, position + RUN)
            sum_, moment = zeros(sums, lanes), zeros(sums, lanes)
            while position < stop:
                vector = load(vectors, np.uint64(places[position]) * width, lanes)
                y, factor = entries[position] - anchor, factors[position]
                of_entries[position] += total(times(vector, slope)) * factor
                of_factors[position] += total(times(vector, times_plus(slope, y, value)))
                sum_, moment = times_plus(vector, factor, sum_), times_plus(vector, factor * y, moment)
                position += ONE
            _add_pair(sums, row, sum_, moment, lanes)


@inlined
def gather_squares(entries, ends, anchors, squares, of_squares, sums, of_entries):  # type: ignore[no-untyped-def]
    """Each piece's Σ g, Σ (x − anchor) g and Σ (x − anchor)² g."""
    position = np.uint64(0)
    for piece in range(len(ends)):
        end, anchor, c1, c2 = np.uint64(ends[piece]), anchors[piece], squares[piece, 1], squares[piece, 2]
        s0 = s1 = s2 = 0.0
        while position < end:
            y, g = np.float64(entries[position] - anchor), of_squares[position]
            of_entries[position] += g * (c1 + 2 * y * c2)
            s0, s1, s2 = s0 + g, s1 + y * g, s2 + y * y * g
            position += ONE
        sums[piece, 0] += s0
        sums[piece, 1] += s1
        sums[piece, 2] += s2


@inlined
def squash_factors(squares, epsilon, factors):  # type: ignore[no-untyped-def]
    """Squash's ``factors``, and their derivatives in place of the squared lengths."""
    for entry in range(len(squares)):
        square = squares[entry]
        factors[entry] = squash_factor(square, epsilon)
        squares[entry] = squash_slope(square, epsilon)


@inlined
def _store_pair(array, at, first, second, lanes):  # type: ignore[no-untyped-def]
    store(array, at, first)
    store(array, at + len(lanes), second)


@inlined
def _add_pair(sums, at, first, second, lanes):  # type: ignore[no-untyped-def]
    store(sums, at, plus(load(sums, at, lanes), first))
    store(sums, at + len(lanes), plus(load(sums, at + len(lanes), lanes), second))


@inlined
def scatter(a, w, order, always, anchors, sums, lanes, room, weights, d, of_weights, of_a, of_w):  # type: ignore[no-untyped-def]
    """Give every filter the sums over the pieces in which it is on.

    They are laid out in ``room`` first, so that what depends on a filter's sign is an address and not a branch.
    """
    count, pair = len(order), 2 * len(lanes)
    nobody = count * pair
    sum_, moment = zeros(a, lanes), zeros(a, lanes)
    for piece in range(count):
        sum_, moment = _with_piece(sums, piece, anchors[piece], lanes, sum_, moment)
        _store_pair(room, piece * pair if w[order[piece]] < 0 else nobody, sum_, moment, lanes)
    sum_, moment = _with_piece(sums, count, anchors[count], lanes, sum_, moment)
    for n in always:
        _scatter_sums_of(n, a, w, sum_, moment, lanes, weights, d, of_weights, of_a, of_w)
    sum_, moment = zeros(a, lanes), zeros(a, lanes)
    for piece in range(count - 1, -1, -1):
        sum_, moment = _with_piece(sums, piece + 1, anchors[piece + 1], lanes, sum_, moment)
        _store_pair(room, piece * pair if w[order[piece]] > 0 else nobody, sum_, moment, lanes)
    for piece in range(count):
        sum_, moment = load(room, piece * pair, lanes), load(room, piece * pair + len(lanes), lanes)
        _scatter_sums_of(order[piece], a, w, sum_, moment, lanes, weights, d, of_weights, of_a, of_w)


@inlined
def _scatter_sums_of(n, a, w, sum_, moment, lanes, weights, d, of_weights, of_a, of_w):  # type: ignore[no-untyped-def]
    at = n * d
    weight = widen(load(weights, at, lanes))
    of_a[n] += total(times(weight, sum_))
    of_w[n] += total(times(weight, moment))
    store(of_weights, at, times_plus(sum_, a[n], times_plus(moment, w[n], load(of_weights, at, lanes))))


@inlined
def _with_piece(sums, piece, anchor, lanes, sum_, moment):  # type: ignore[no-untyped-def]
    """The running sums Σ G and Σ x G with one more piece."""
    at = piece * 2 * len(lanes)
    of_piece, moment_of_piece = widen(load(sums, at, lanes)), widen(load(sums, at + len(lanes), lanes))
    shift = np.float64(anchor) if abs(anchor) < np.inf else 0.0  # at infinity are no candidates
    return plus(sum_, of_piece), plus(moment, times_plus(of_piece, shift, moment_of_piece))


@inlined
def scatter_squares(a, w, order, always, anchors, sums, of_a, of_w):  # type: ignore[no-untyped-def]
    """What the squared lengths add to that: ∂q/∂a_n = 2 relu(a_n + w_n x), ∂q/∂w_n = x times as much."""
    count = len(order)
    s0 = s1 = s2 = 0.0
    for piece in range(count):
        s0, s1, s2 = _with_squares(sums, piece, anchors[piece], s0, s1, s2)
        _scatter_squares_of(order[piece], a, w, s0, s1, s2, w[order[piece]] < 0, of_a, of_w)
    s0, s1, s2 = _with_squares(sums, count, anchors[count], s0, s1, s2)
    for n in always:
        _scatter_squares_of(n, a, w, s0, s1, s2, True, of_a, of_w)
    s0 = s1 = s2 = 0.0
    for piece in range(count - 1, -1, -1):
        s0, s1, s2 = _with_squares(sums, piece + 1, anchors[piece + 1], s0, s1, s2)
        _scatter_squares_of(order[piece], a, w, s0, s1, s2, w[order[piece]] > 0, of_a, of_w)


@inlined
def _scatter_squares_of(n, a, w, s0, s1, s2, is_on, of_a, of_w):  # type: ignore[no-untyped-def]
    of_a[n] += 2 * is_on * (a[n] * s0 + w[n] * s1)
    of_w[n] += 2 * is_on * (a[n] * s1 + w[n] * s2)


@inlined
def _with_squares(sums, piece, anchor, s0, s1, s2):  # type: ignore[no-untyped-def]
    x = np.float64(anchor) if abs(anchor) < np.inf else 0.0
    y0, y1, y2 = sums[piece, 0], sums[piece, 1], sums[piece, 2]
    return s0 + y0, s1 + y1 + x * y0, s2 + y2 + x * (2 * y1 + x * y0)
