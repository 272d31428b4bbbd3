"""One dimension's contribution to a score, as a table over the pieces between its breakpoints.

With two slots of [h, r, t] known, dimension i sees the candidate as one number x, and filter n answers
relu(a_n + w_n x), a_n being what the known slots and the bias give. So

    F(x) = Σ_n W[n] relu(a_n + w_n x) ∈ R^d         and, for squashed capsules,         ‖u(x)‖² = Σ_n relu(a_n + w_n x)²

are linear and quadratic between breakpoints −a_n / w_n. Each filter gets a *key*: the smallest float at which it is no
longer in the state that it has at −∞. A filter exactly at its breakpoint is off, so with w_n > 0 the key is the next
float above the breakpoint, with w_n < 0 the breakpoint itself (rounded up). Piece j holds the x with key[j−1] <= x <
key[j] in sorted order; there the filters that are on are those with w > 0 before j (a prefix sum) and those with w < 0
from j on (a suffix sum). Sums over no filters are exactly zero.

Sums run in float64. A piece is stored around an anchor, its point nearest to zero: F(x) = value + slope·(x − anchor).
The terms are then no larger than those of the plain sum at x or at 0, so that little cancels.
"""

from __future__ import annotations

import numpy as np

from capse.kernels.cpu.lanes import load, next_up, plus, store, times_plus, widen, zeros
from capse.kernels.cpu.loops import inlined
from capse.kernels.cpu.sorting import argsort

BLOCK = 16  # pieces whose suffix sums are at hand together


@inlined
def sort_pieces(a, w, keys, anchors, order, codes, spare):  # type: ignore[no-untyped-def]
    """Fill ``order`` (M,) with the filters as their keys ascend, and each piece's key and anchor; the last key is +∞.

    ``codes`` and ``spare`` (M,) are room for sorting.
    """
    count = len(order)
    crossings, unsorted = np.empty(count, keys.dtype), np.empty(count, keys.dtype)
    for n in range(count):
        exact = -a[n] / w[n]
        crossings[n] = exact
        unsorted[n] = crossings[n]
        if crossings[n] < exact or (crossings[n] == exact and w[n] > 0 and exact < np.inf):
            unsorted[n] = next_up(crossings[n])
    argsort(unsorted, order, codes, spare)
    left = -np.inf
    for piece in range(count):
        right = crossings[order[piece]]
        keys[piece], anchors[piece] = unsorted[order[piece]], max(left, min(0.0, right))
        left = right
    keys[count], anchors[count] = np.inf, max(left, 0.0)


@inlined
def tabulate_squares(a, w, order, anchors, squares):  # type: ignore[no-untyped-def]
    """Fill ``squares`` (M + 1, 3) with c such that ‖u(x)‖² = c0 + c1 y + c2 y², y = x − anchor.

    The filters after the M sorted ones have w = 0 and are constants.
    """
    count = len(order)
    aa = aw = ww = 0.0
    for piece in range(count, -1, -1):
        squares[piece, 0], squares[piece, 1], squares[piece, 2] = aa, aw, ww
        if piece:
            n = order[piece - 1]
            is_on = w[n] < 0  # a factor, not a branch: its sign is anyone's guess
            aa, aw, ww = aa + a[n] * a[n] * is_on, aw + a[n] * w[n] * is_on, ww + w[n] * w[n] * is_on
    aa = aw = ww = 0.0
    for n in range(count, len(a)):
        aa += max(a[n], 0.0) ** 2
    for piece in range(count + 1):
        anchor = anchors[piece]
        all_aa, all_aw, all_ww = aa + squares[piece, 0], aw + squares[piece, 1], ww + squares[piece, 2]
        squares[piece, 0] = all_aa + anchor * (2 * all_aw + anchor * all_ww)
        squares[piece, 1] = 2 * (all_aw + anchor * all_ww)
        squares[piece, 2] = all_ww
        if piece < count:
            n = order[piece]
            is_on = w[n] > 0
            aa, aw, ww = aa + a[n] * a[n] * is_on, aw + a[n] * w[n] * is_on, ww + w[n] * w[n] * is_on


@inlined
def tabulate(a, w, order, anchors, weights, row, stride, lanes, sums, table, start, width):  # type: ignore[no-untyped-def]
    """Fill ``table[start:]``, for each piece ``width`` values at its anchor and ``width`` slopes.

    Filter n's weights are ``weights[row + n·stride:]``. Lanes beyond ``width`` are written over by what comes next.
    """
    count = len(order)
    pair = 2 * len(lanes)
    intercept, slope = zeros(sums, lanes), zeros(sums, lanes)
    later = BLOCK * pair  # where the suffix sums at the start of each block stand, behind one block's own
    for piece in range(count, 0, -1):
        if piece % BLOCK == 0:
            _store_pair(sums, later + piece // BLOCK * pair, intercept, slope, len(lanes))
        n = order[piece - 1]
        intercept, slope = _with_filter(weights, row + n * stride, lanes, a[n], w[n], w[n] < 0, intercept, slope)

    intercept, slope = zeros(sums, lanes), zeros(sums, lanes)
    for n in range(count, len(a)):
        intercept, slope = _with_filter(weights, row + n * stride, lanes, a[n], w[n], a[n] > 0, intercept, slope)
    for block in range(0, count + 1, BLOCK):
        end = min(block + BLOCK, count + 1)
        falling_intercept, falling_slope = zeros(sums, lanes), zeros(sums, lanes)  # filters that turn off later
        if end <= count:
            at = later + end // BLOCK * pair
            falling_intercept, falling_slope = load(sums, at, lanes), load(sums, at + len(lanes), lanes)
        for piece in range(end - 1, block - 1, -1):
            if piece < count:
                n = order[piece]
                falling_intercept, falling_slope = _with_filter(
                    weights, row + n * stride, lanes, a[n], w[n], w[n] < 0, falling_intercept, falling_slope
                )
            _store_pair(sums, (piece - block) * pair, falling_intercept, falling_slope, len(lanes))
        for piece in range(block, end):
            at = (piece - block) * pair
            all_intercepts = plus(intercept, load(sums, at, lanes))
            all_slopes = plus(slope, load(sums, at + len(lanes), lanes))
            value = times_plus(all_slopes, anchors[piece], all_intercepts)
            _store_pair(table, start + piece * 2 * width, value, all_slopes, width)
            if piece < count:
                n = order[piece]
                intercept, slope = _with_filter(
                    weights, row + n * stride, lanes, a[n], w[n], w[n] > 0, intercept, slope
                )


@inlined
def tabulate_slopes(a, w, order, weights, row, stride, lanes, table):  # type: ignore[no-untyped-def]
    """Fill ``table`` with each piece's slopes alone."""
    count = len(order)
    falling = zeros(a, lanes)
    for piece in range(count, -1, -1):
        store(table, piece * len(lanes), falling)
        if piece:
            n = order[piece - 1]
            falling = times_plus(widen(load(weights, row + n * stride, lanes)), w[n] * (w[n] < 0), falling)
    rising = zeros(a, lanes)
    for piece in range(count + 1):
        at = piece * len(lanes)
        store(table, at, plus(widen(load(table, at, lanes)), rising))
        if piece < count:
            n = order[piece]
            rising = times_plus(widen(load(weights, row + n * stride, lanes)), w[n] * (w[n] > 0), rising)


@inlined
def _with_filter(weights, at, lanes, a, w, is_on, intercept, slope):  # type: ignore[no-untyped-def]
    """The running sums with one more filter, if it is on."""
    weight = widen(load(weights, at, lanes))
    return times_plus(weight, a * is_on, intercept), times_plus(weight, w * is_on, slope)


@inlined
def _store_pair(array, at, first, second, width):  # type: ignore[no-untyped-def]
    store(array, at, first)
    store(array, at + width, second)
