"""The gradient of the votes, at a cost that hardly grows with the filters either.

Candidate e's vote in dimension i is F(x) = Σ_n W[n] relu(a_n + w_n x) at x = x_e: see `pieces`. With G_e the gradient
at that vote, the gradient of x_e is its piece's slope times G_e. A filter needs two sums over the candidates for which
it is on, A = Σ G_e and B = Σ x_e G_e:

    of W[n]:  a_n A + w_n B            of a_n:  W[n]·A            of w_n:  W[n]·B

One sweep over the sorted column leaves the sums of each piece; a filter with w_n < 0 is on in the pieces up to its key,
one with w_n > 0 in those after it, so that running sums over the pieces, from either end, give all filters theirs; a
filter without a key among the entries is on in all of them or in none. Nothing is subtracted: a filter that is on
nowhere gets exactly zero.

Squashed capsules, F(x) f(q) with q = ‖u‖² = Σ_n relu(a_n + w_n x)², need in the same way the sums of g_e, x_e g_e and
x_e² g_e, g_e = f'(q) F(x_e)·G_e being the gradient of q.

Dimensions are dealt to threads, and no two of them write the same number: the result has the same bits whatever the
number of threads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from capse.kernels.cpu.columns import Columns
from capse.kernels.cpu.loops import aligned, cached, inlined
from capse.kernels.cpu.pieces import piece_buffers, sort_pieces, tabulate, tabulate_slopes, tabulate_squares
from capse.kernels.cpu.sums import (
    gather,
    gather_squares,
    gather_squashed,
    scatter,
    scatter_squares,
    squash_factors,
)
from capse.kernels.cpu.sweep import (
    WIDE,
    Filters,
    Floats,
    Known,
    known_part,
    lanes_for,
    locate,
    squared_lengths,
)
from capse.kernels.threads import in_threads

SHARES = 2  # per thread; each prepares every query's gradient for itself, so few
OF_FIRST, OF_SECOND, OF_CANDIDATE, OF_BIAS = 0, 1, 2, 3  # whose gradients a row of `Sums.filters` holds


class Tables(NamedTuple):
    """The pieces of one dimension of a query. Values and squared lengths are there where capsules are squashed."""

    keys: Floats  # (M + 1,)
    anchors: Floats  # (M + 1,)
    rows: Floats  # by group of lanes and piece, the values and the slopes
    squares: npt.NDArray[np.float64]  # (M + 1, 3)


class Sums(NamedTuple):
    """Gradients, as the loops add them up."""

    first: Floats  # (B, k)
    second: Floats  # (B, k)
    columns: Floats  # of the candidates, (k, C)
    filters: npt.NDArray[np.float64]  # each dimension's share, (k, 4, N), see OF_FIRST and so on
    weights: npt.NDArray[np.float64]  # (k, N·d + WIDE), the last WIDE of each row of no meaning


def sweep_gradient(
    known: Known, filters: Filters, columns: Columns, epsilon: float | None, gradient: Floats, threads: int
) -> Sums:
    """Gradients, given that of the votes: (B, C, 1, d) for all dimensions, or (B, C, k, d) for each.

    With an ``epsilon`` capsules are squashed.
    """
    (queries, k), count, candidates = known.first.shape, len(filters.bias), gradient.shape[1]
    sums = Sums(
        np.empty((queries, k), gradient.dtype),
        np.empty((queries, k), gradient.dtype),
        np.empty((k, candidates), gradient.dtype),
        np.zeros((k, 4, count)),
        np.zeros((k, count * filters.d + WIDE)),
    )
    in_threads(
        _share, threads, known, filters, columns, lanes_for(filters), epsilon, gradient, sums, shares_per_thread=SHARES
    )
    return sums


@cached
def _share(share, shares, known, filters, columns, lanes, epsilon, gradient, sums):  # type: ignore[no-untyped-def]
    queries, k = known.first.shape
    candidates, given, d = gradient.shape[1:]
    tiles, _, size = columns.places.shape
    count, pieces, groups = len(filters.bias), filters.active + 1, (d + len(lanes) - 1) // len(lanes)
    dtype, width = gradient.dtype, groups * len(lanes)
    a, of_a, of_w = np.empty(count), np.empty(count), np.empty(count)
    buffers = piece_buffers(count, filters.active, dtype)
    tables = Tables(
        np.empty(pieces, dtype),
        np.empty(pieces, dtype),
        aligned(groups * pieces * len(lanes) * (1 if epsilon is None else 2), dtype).reshape(groups, -1),
        np.empty((pieces, 3)),
    )
    piece_sums = aligned(groups * pieces * 2 * len(lanes), dtype).reshape(groups, -1)
    square_sums = np.empty((pieces, 3))
    by_key = aligned(pieces * 2 * len(lanes), np.float64)
    vectors = aligned(candidates * width, dtype)
    start, stop = k * share // shares, k * (share + 1) // shares
    of_entries = np.zeros((stop - start, tiles * size), dtype)  # the candidates' gradients, in their columns' order
    for query in range(queries):
        for i in range(start, stop):
            if i == start or given > 1:
                _pad(gradient[query], i % given, vectors, width)
            known_part(known.first[query, i], known.second[query, i], filters, a)
            low, high = columns.ranges[i, 0], columns.ranges[i, 1]
            inside, always = sort_pieces(a, filters.of_candidate, low, high, tables.keys, tables.anchors, buffers)
            order, constant = buffers.order[:inside], buffers.always[:always]
            _tabulate(a, filters, i, order, constant, lanes, epsilon, tables)
            piece_sums[:, : (inside + 1) * 2 * len(lanes)] = 0
            if epsilon is not None:
                square_sums[: inside + 1] = 0
            for tile in range(tiles):
                first = tile * size
                _sweep_tile(
                    columns.entries[tile, i],
                    columns.places[tile, i],
                    min(size, candidates - first),
                    tables,
                    inside + 1,
                    lanes,
                    epsilon,
                    vectors[first * width :],
                    piece_sums,
                    square_sums,
                    of_entries[i - start, first : first + size],
                )
            of_a[:] = 0
            of_w[:] = 0
            for group in range(groups):
                scatter(
                    a,
                    filters.of_candidate,
                    order,
                    constant,
                    tables.anchors,
                    piece_sums[group],
                    lanes,
                    by_key,
                    filters.weights[i * count * d + group * len(lanes) :],
                    d,
                    sums.weights[i, group * len(lanes) :],
                    of_a,
                    of_w,
                )
            if epsilon is not None:
                scatter_squares(a, filters.of_candidate, order, constant, tables.anchors, square_sums, of_a, of_w)
            _chain(filters, known.first[query, i], known.second[query, i], of_a, of_w, query, i, sums)
    for i in range(start, stop):
        _put_back(of_entries[i - start], columns.places[:, i], sums.columns[i])


@inlined
def _put_back(of_entries, places, of_candidates):  # type: ignore[no-untyped-def]
    """One dimension's gradients, from the order of its column to that of the candidates."""
    tiles, size = places.shape
    for tile in range(tiles):
        first = tile * size
        for position in range(min(size, len(of_candidates) - first)):
            of_candidates[first + places[tile, position]] = of_entries[first + position]


@inlined
def _pad(gradient, i, vectors, width):  # type: ignore[no-untyped-def]
    """Dimension i's gradient of every candidate, at multiples of ``width``; what stands between is zero."""
    for candidate in range(len(gradient)):
        for c in range(gradient.shape[2]):
            vectors[candidate * width + c] = gradient[candidate, i, c]


@inlined
def _tabulate(a, filters, i, order, constant, lanes, epsilon, tables):  # type: ignore[no-untyped-def]
    """Rows of whole lanes. In those beyond d is something, but no NaN, and it meets with zeros in the gradient."""
    w, d, largest = filters.of_candidate, filters.d, filters.largest[i]
    for group in range(len(tables.rows)):
        row = i * len(a) * d + group * len(lanes)
        if epsilon is None:
            tabulate_slopes(w, order, constant, filters.weights, row, d, largest, lanes, tables.rows[group])
        else:
            rows, width = tables.rows[group], len(lanes)
            tabulate(a, w, order, constant, tables.anchors, filters.weights, row, d, largest, lanes, rows, 0, width)
    if epsilon is not None:
        tabulate_squares(a, w, order, constant, tables.anchors, tables.squares)


@inlined
def _sweep_tile(  # type: ignore[no-untyped-def]
    entries, places, count, tables, pieces, lanes, epsilon, vectors, piece_sums, square_sums, of_entries
):
    """Add a tile's candidates to the sums of their pieces, and to their own gradients what they get from one query."""
    ends = np.empty(pieces, np.int64)
    locate(entries, count, tables.keys[:pieces], ends)
    width = np.uint64(len(tables.rows) * len(lanes))
    if epsilon is None:
        for group in range(len(tables.rows)):
            of_group = vectors[group * len(lanes) :]
            rows = tables.rows[group]
            gather(entries, places, ends, tables.anchors, rows, lanes, of_group, width, piece_sums[group], of_entries)
    else:
        squares, factors, of_factors = np.empty(count), np.empty(count, entries.dtype), np.zeros(count, entries.dtype)
        squared_lengths(entries, ends, tables.anchors, tables.squares, squares)
        squash_factors(squares, epsilon, factors)
        for group in range(len(tables.rows)):
            of_group = vectors[group * len(lanes) :]
            rows = tables.rows[group]
            gather_squashed(
                entries,
                places,
                ends,
                tables.anchors,
                rows,
                lanes,
                of_group,
                width,
                factors,
                piece_sums[group],
                of_entries,
                of_factors,
            )
        squares *= of_factors
        gather_squares(entries, ends, tables.anchors, tables.squares, squares, square_sums, of_entries)


@inlined
def _chain(filters, first, second, of_a, of_w, query, i, sums):  # type: ignore[no-untyped-def]
    """From a_n = first·f + second·f' + bias to what it is made of."""
    of_filters = sums.filters[i]
    of_first = of_second = 0.0
    of_filters[OF_FIRST] += of_a * first
    of_filters[OF_SECOND] += of_a * second
    of_filters[OF_CANDIDATE] += of_w
    of_filters[OF_BIAS] += of_a
    for n in range(len(of_a)):
        of_first += of_a[n] * filters.of_first[n]
        of_second += of_a[n] * filters.of_second[n]
    sums.first[query, i], sums.second[query, i] = of_first, of_second
