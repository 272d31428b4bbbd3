"""One dimension's contribution to a score, as a table over the pieces between its breakpoints.

With two slots of [h, r, t] known, dimension i sees the candidate as one number x, and filter n answers
relu(a_n + w_n x), a_n being what the known slots and the bias give. So

    F(x) = Σ_n W[n] relu(a_n + w_n x) ∈ R^d         and, for squashed capsules,         ‖u(x)‖² = Σ_n relu(a_n + w_n x)²

are linear and quadratic between breakpoints −a_n / w_n. Each filter gets a *key*: the smallest float at which it is no
longer in the state that it has at −∞. A filter exactly at its breakpoint is off, so with w_n > 0 the key is the next
float above the breakpoint, with w_n < 0 the breakpoint itself (rounded up). Only keys among the candidates' entries
matter: the others' filters are on for all candidates or for none. Piece j holds the x with key[j−1] <= x < key[j] in
sorted order; from one to the next a filter with w > 0 is added and one with w < 0 taken away.

For that, terms are rounded to a grid on which float64 adds and subtracts without rounding, 2^−51 of what could come
together: what is taken away is exactly what was added, sums over no filters are exactly zero, and a sum does not depend
on its order, nor therefore on which keys are among the entries. A piece is stored around an anchor, its point nearest
to zero: F(x) = value + slope·(x − anchor). The terms are then no larger than those of the plain sum at x or at 0, so
that little cancels.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from capse.kernels.cpu.lanes import load, minus, next_up, plus, spread, store, times_plus, widen, zeros
from capse.kernels.cpu.loops import inlined
from capse.kernels.cpu.sorting import argsort


class Buffers(NamedTuple):
    """What sorting the pieces of N filters takes, M of which see the candidate."""

    crossings: npt.NDArray[np.floating]  # (M,)
    unsorted: npt.NDArray[np.floating]  # (M,)
    inside: npt.NDArray[np.floating]  # (M,)
    codes: npt.NDArray[np.uint64]  # (M,)
    spare: npt.NDArray[np.uint64]  # (M,)
    places: npt.NDArray[np.int64]  # (M,)
    order: npt.NDArray[np.int64]  # (M,): the filters whose keys are among the entries, as their keys ascend
    always: npt.NDArray[np.int64]  # (N,): the filters that are on for all entries


@inlined
def piece_buffers(count, active, dtype):  # type: ignore[no-untyped-def]
    return Buffers(
        np.empty(active, dtype),
        np.empty(active, dtype),
        np.empty(active, dtype),
        np.empty(active, np.uint64),
        np.empty(active, np.uint64),
        np.empty(active, np.int64),
        np.empty(active, np.int64),
        np.empty(count, np.int64),
    )


@inlined
def sort_pieces(a, w, low, high, keys, anchors, buffers):  # type: ignore[no-untyped-def]
    """Fill each piece's key, the last one's being +∞, and anchor, and the buffers's ``order`` and ``always``.

    The entries are from ``low`` to ``high``. Returns how many filters of each of the two there are; there is one piece
    more than keys among the entries.
    """
    active = len(buffers.order)
    crossings, unsorted = buffers.crossings, buffers.unsorted
    for n in range(active):
        exact = -a[n] / w[n]
        crossings[n] = exact
        unsorted[n] = crossings[n]
        if crossings[n] < exact or (crossings[n] == exact and w[n] > 0 and exact < np.inf):
            unsorted[n] = next_up(crossings[n])
    inside = always = 0
    left, right = keys.dtype.type(-np.inf), keys.dtype.type(np.inf)  # the nearest breakpoints beyond the entries
    for n in range(active):  # stores and sums without branches: on which side a key lies is anyone's guess
        key, crossing = unsorted[n], crossings[n]
        buffers.places[inside], buffers.inside[inside], buffers.always[always] = n, key, n
        inside += (key > low) & (key <= high)
        always += (key <= low) if w[n] > 0 else (key > high)
        left = max(left, crossing if key <= low else left)
        right = min(right, crossing if key > high else right)
    for n in range(active, len(a)):
        buffers.always[always] = n
        always += a[n] > 0
    argsort(buffers.inside[:inside], buffers.order, buffers.codes, buffers.spare)
    for piece in range(inside):
        n = buffers.places[buffers.order[piece]]
        buffers.order[piece] = n
        keys[piece], anchors[piece] = unsorted[n], left
        left = max(left, crossings[n])
    keys[inside], anchors[inside] = np.inf, max(left, min(0.0, right))
    for piece in range(inside - 1, -1, -1):
        right = min(right, crossings[buffers.order[piece]])
        anchors[piece] = max(anchors[piece], min(0.0, right))
    return inside, always


@inlined
def grid_for(bound):  # type: ignore[no-untyped-def]
    """A number whose last bit is the step of a grid on which sums of terms with Σ|term| <= bound are exact."""
    return math.ldexp(3.0, math.frexp(bound)[1])


@inlined
def _rounded(number, grid):  # type: ignore[no-untyped-def]
    return (number + grid) - grid


@inlined
def tabulate_squares(a, w, order, always, anchors, squares):  # type: ignore[no-untyped-def]
    """Fill ``squares`` (M + 1, 3) with c such that ‖u(x)‖² = c0 + c1 y + c2 y², y = x − anchor."""
    aa = aw = ww = 0.0
    for n in range(len(a)):
        aa, aw, ww = aa + a[n] * a[n], aw + abs(a[n] * w[n]), ww + w[n] * w[n]
    of_aa, of_aw, of_ww = grid_for(aa), grid_for(aw), grid_for(ww)
    aa = aw = ww = 0.0
    for n in always:
        aa += _rounded(a[n] * a[n], of_aa)
        aw += _rounded(a[n] * w[n], of_aw)
        ww += _rounded(w[n] * w[n], of_ww)
    for n in order:
        is_on = w[n] < 0
        aa += is_on * _rounded(a[n] * a[n], of_aa)
        aw += is_on * _rounded(a[n] * w[n], of_aw)
        ww += is_on * _rounded(w[n] * w[n], of_ww)
    for piece in range(len(order) + 1):
        anchor = anchors[piece]
        squares[piece, 0] = aa + anchor * (2 * aw + anchor * ww)
        squares[piece, 1] = 2 * (aw + anchor * ww)
        squares[piece, 2] = ww
        if piece < len(order):
            n = order[piece]
            sign = 1.0 if w[n] > 0 else -1.0
            aa += sign * _rounded(a[n] * a[n], of_aa)
            aw += sign * _rounded(a[n] * w[n], of_aw)
            ww += sign * _rounded(w[n] * w[n], of_ww)


@inlined
def tabulate(a, w, order, always, anchors, weights, row, stride, largest, lanes, table, start, width):  # type: ignore[no-untyped-def]
    """Fill ``table[start:]``, for each piece ``width`` values at its anchor and ``width`` slopes.

    Filter n's weights are ``weights[row + n·stride:]``, none above ``largest``. Lanes beyond ``width`` are written
    over by what comes next.
    """
    sum_a = sum_w = 0.0
    for n in range(len(a)):
        sum_a, sum_w = sum_a + abs(a[n]), sum_w + abs(w[n])
    of_intercept, of_slope = spread(grid_for(largest * sum_a), lanes), spread(grid_for(largest * sum_w), lanes)
    intercept, slope = zeros(a, lanes), zeros(a, lanes)
    for n in always:
        weight = widen(load(weights, row + n * stride, lanes))
        intercept = plus(intercept, _on_grid(weight, a[n], of_intercept))
        slope = plus(slope, _on_grid(weight, w[n], of_slope))
    for n in order:
        is_on = w[n] < 0  # a factor, not a branch: its sign is anyone's guess
        weight = widen(load(weights, row + n * stride, lanes))
        intercept = plus(intercept, _on_grid(weight, is_on * a[n], of_intercept))
        slope = plus(slope, _on_grid(weight, is_on * w[n], of_slope))
    for piece in range(len(order) + 1):
        _store_pair(table, start + piece * 2 * width, times_plus(slope, anchors[piece], intercept), slope, width)
        if piece < len(order):
            n = order[piece]
            sign = 1.0 if w[n] > 0 else -1.0
            weight = widen(load(weights, row + n * stride, lanes))
            intercept = plus(intercept, _on_grid(weight, sign * a[n], of_intercept))
            slope = plus(slope, _on_grid(weight, sign * w[n], of_slope))


@inlined
def tabulate_slopes(w, order, always, weights, row, stride, largest, lanes, table):  # type: ignore[no-untyped-def]
    """Fill ``table`` with each piece's slopes alone."""
    sum_w = 0.0
    for n in range(len(w)):
        sum_w += abs(w[n])
    grid = spread(grid_for(largest * sum_w), lanes)
    slope = zeros(w, lanes)
    for n in always:
        slope = plus(slope, _on_grid(widen(load(weights, row + n * stride, lanes)), w[n], grid))
    for n in order:
        slope = plus(slope, _on_grid(widen(load(weights, row + n * stride, lanes)), min(w[n], 0.0), grid))
    for piece in range(len(order) + 1):
        store(table, piece * len(lanes), slope)
        if piece < len(order):
            n = order[piece]
            slope = plus(slope, _on_grid(widen(load(weights, row + n * stride, lanes)), abs(w[n]), grid))


@inlined
def _on_grid(weight, factor, grid):  # type: ignore[no-untyped-def]
    """weight · factor, rounded to the grid; what it is with the opposite sign is its opposite."""
    return minus(times_plus(weight, factor, grid), grid)


@inlined
def _store_pair(array, at, first, second, width):  # type: ignore[no-untyped-def]
    store(array, at, first)
    store(array, at + width, second)
