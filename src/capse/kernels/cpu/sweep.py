"""Every candidate's score on the CPU, compiled by numba, at a cost that hardly grows with the filters.

`pieces` turns each dimension of a query into a table over the pieces between its breakpoints. With a tile's column of
candidate entries sorted, one sweep over entries and pieces together adds dimension i to all candidates of the tile: a
piece's value and slope stay in registers, and each candidate costs one multiply-add of d lanes.

A candidate's score depends on the query and its own vector alone: not on tiles, threads or other candidates.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from capse.kernels.cpu.columns import ENTRIES, Columns
from capse.kernels.cpu.lanes import count_below, load, plus, prefetch, store, times_plus, zeros
from capse.kernels.cpu.loops import aligned, cached, inlined
from capse.kernels.cpu.pieces import piece_buffers, sort_pieces, tabulate, tabulate_squares
from capse.kernels.cpu.readout import Form, read_out
from capse.kernels.cpu.routing import padded_votes
from capse.kernels.cpu.sorting import ONE
from capse.kernels.cpu.squash import squash_factor
from capse.kernels.threads import in_threads

Floats = npt.NDArray[np.floating[Any]]

WIDE = 16  # lanes in which vectors are added up; a vector of one number has one lane
LINE = np.uint64(16)  # float32s in a cache line, or half as many places


class Known(NamedTuple):
    """The two known vectors of each query, (B, k) each."""

    first: Floats
    second: Floats


class Filters(NamedTuple):
    """The filters' float64 weights (N,) for the two known slots and the candidate's, and what they feed.

    The first ``active`` of the filters have a candidate's weight other than zero.
    """

    of_first: npt.NDArray[np.float64]
    of_second: npt.NDArray[np.float64]
    of_candidate: npt.NDArray[np.float64]
    bias: npt.NDArray[np.float64]
    active: int
    weights: Floats  # W_i transposed, (k, N, d), flat, and WIDE floats of any value behind them
    largest: npt.NDArray[np.float64]  # of each |W_i|, (k,)
    d: int


class Tables(NamedTuple):
    """The pieces of one query's k dimensions."""

    counts: npt.NDArray[np.int64]  # how many there are, at most M + 1, (k,)
    keys: Floats  # (k, M + 1)
    anchors: Floats  # (k, M + 1)
    rows: Floats  # flat: by dimension, group of WIDE lanes and piece, the values and the slopes


def sweep(
    known: Known, filters: Filters, columns: Columns, squash: bool, form: Form, results: Floats, threads: int
) -> None:
    """Fill ``results`` (B, C, ...). Queries are dealt to threads; where there are fewer, each is cut into parts."""
    parts = -(-threads // max(1, len(results)))
    in_threads(
        _sweep_share,
        threads,
        parts,
        known,
        filters,
        columns,
        lanes_for(filters),
        True if squash else None,
        form,
        results.reshape(len(results), -1),
        max(1, math.prod(results.shape[2:])),
    )


def lanes_for(filters: Filters) -> tuple[int, ...]:
    return (0,) if filters.d == 1 else (0,) * WIDE


@cached
def _sweep_share(share, shares, parts, known, filters, columns, lanes, squash, form, results, each):  # type: ignore[no-untyped-def]
    """``each`` candidate has so many numbers in ``results`` (B, C·each)."""
    k, pieces, d = known.first.shape[1], filters.active + 1, filters.d
    dtype = results.dtype
    tables = Tables(
        np.empty(k, np.int64),
        np.empty((k, pieces), dtype),
        np.empty((k, pieces), dtype),
        np.empty(k * pieces * 2 * d + len(lanes), dtype),
    )
    squares = None if squash is None else np.empty((k, pieces, 3))
    tiles, _, size = columns.places.shape
    width = (d + len(lanes) - 1) // len(lanes) * len(lanes)
    stride = padded_votes(k, width, lanes) if form.routing > 1 else width
    vectors = aligned(size * stride, dtype)
    for item in range(share, len(results) * parts, shares):
        query, part = item // parts, item % parts
        _tabulate_query(known.first[query], known.second[query], filters, columns.ranges, lanes, tables, squares)
        for tile in range(tiles * part // parts, tiles * (part + 1) // parts):
            tile_results = results[query, tile * size * each : (tile + 1) * size * each]
            count = len(tile_results) // each
            place = columns.entries[tile], columns.places[tile], count
            if form.routing > 1:
                _add_dimensions(*place, tables, squares, d, lanes, form.epsilon, True, vectors, stride, width)
            else:
                vectors[: count * stride] = 0
                _add_dimensions(*place, tables, squares, d, lanes, form.epsilon, None, vectors, stride, 0)
            read_out(vectors, k, d, stride, lanes, form, tile_results)


@inlined
def _tabulate_query(first, second, filters, ranges, lanes, tables, squares):  # type: ignore[no-untyped-def]
    count, d, w, weights = len(filters.bias), filters.d, filters.of_candidate, filters.weights
    a = np.empty(count)
    buffers = piece_buffers(count, filters.active, tables.keys.dtype)
    for i in range(len(first)):
        known_part(first[i], second[i], filters, a)
        keys, anchors = tables.keys[i], tables.anchors[i]
        inside, always = sort_pieces(a, w, ranges[i, 0], ranges[i, 1], keys, anchors, buffers)
        tables.counts[i] = inside + 1
        order, constant = buffers.order[:inside], buffers.always[:always]
        if squares is not None:
            tabulate_squares(a, w, order, constant, anchors, squares[i])
        for lane in range(0, d, len(lanes)):
            row, start, width = i * count * d + lane, (i * d + lane) * 2 * len(keys), min(len(lanes), d - lane)
            largest = filters.largest[i]
            tabulate(a, w, order, constant, anchors, weights, row, d, largest, lanes, tables.rows, start, width)


@inlined
def known_part(first, second, filters, a):  # type: ignore[no-untyped-def]
    """What the known slots and the bias give, in one dimension."""
    for n in range(len(a)):
        a[n] = filters.of_first[n] * first + filters.of_second[n] * second + filters.bias[n]


@inlined
def _add_dimensions(entries, places, count, tables, squares, d, lanes, epsilon, keep, vectors, stride, step):  # type: ignore[no-untyped-def]
    """Sum the k dimensions' vectors of a tile's candidates, ``stride`` per candidate.

    Or, where ``keep`` is not None, keep each, a ``step`` from that of the dimension before.
    """
    k, pieces = tables.keys.shape
    buffers = np.empty(pieces, np.int64)
    factors = None if squares is None else np.empty(count, vectors.dtype)
    for i in range(k):
        upcoming = entries[min(i + 1, k - 1)], places[min(i + 1, k - 1)]
        ends = buffers[: tables.counts[i]]
        locate(entries[i], count, tables.keys[i, : len(ends)], ends)
        if squares is not None:
            squared_lengths(entries[i], ends, tables.anchors[i], squares[i], factors)
            _squash_factors(factors, epsilon)
        for lane in range(0, d, len(lanes)):
            start, width = (i * d + lane) * 2 * pieces, min(len(lanes), d - lane)
            _add(
                entries[i],
                places[i],
                ends,
                tables.anchors[i],
                factors,
                tables.rows,
                start,
                width,
                lanes,
                keep,
                vectors,
                np.uint64(stride),
                np.uint64(lane + i * step),
                upcoming,
            )


@inlined
def locate(entries, count, keys, ends):  # type: ignore[no-untyped-def]
    """ends[j] = how many of ``count`` ascending entries lie below keys[j], where the entries of piece j end.

    Run lengths are too irregular for a branch predictor, so they are counted block by block, without branching on them.
    """
    piece = np.uint64(0)  # unsigned: a signed index costs a test for negative ones
    for start in range(0, count, len(ENTRIES)):
        block = load(entries, start, ENTRIES)
        last = entries[start + len(ENTRIES) - 1]
        while piece < len(keys) and keys[piece] <= last:
            ends[piece] = start + count_below(block, keys[piece])
            piece += ONE
    ends[piece:] = count


@inlined
def squared_lengths(entries, ends, anchors, squares, lengths):  # type: ignore[no-untyped-def]
    """‖u‖² of one dimension, for each entry."""
    position = np.uint64(0)
    for piece in range(len(ends)):
        end, anchor = np.uint64(ends[piece]), anchors[piece]
        c0, c1, c2 = squares[piece, 0], squares[piece, 1], squares[piece, 2]
        while position < end:
            y = entries[position] - anchor
            lengths[position] = max(c0 + y * (c1 + y * c2), 0.0)
            position += ONE


@inlined
def _squash_factors(lengths, epsilon):  # type: ignore[no-untyped-def]
    """What squash scales vectors of these squared lengths by, in their place."""
    epsilon = lengths.dtype.type(epsilon)
    for entry in range(len(lengths)):
        lengths[entry] = squash_factor(lengths[entry], epsilon)


@inlined
def _add(entries, places, ends, anchors, factors, rows, start, width, lanes, keep, vectors, stride, offset, upcoming):  # type: ignore[no-untyped-def]
    """Add one dimension's ``width`` numbers to ``vectors[place·stride + offset:]`` for each candidate of a tile.

    Where they are to be kept, nothing was there before.

    On the way, the ``upcoming`` column is brought nearer: `locate` would have to wait for it.
    """
    next_entries, next_places = upcoming
    position = fetched = np.uint64(0)
    for piece in range(len(ends)):
        end, anchor, row = np.uint64(ends[piece]), anchors[piece], start + piece * 2 * width
        value, slope = load(rows, row, lanes), load(rows, row + width, lanes)
        while fetched < end:
            prefetch(next_entries, fetched)
            prefetch(next_entries, fetched + LINE)
            prefetch(next_places, fetched)
            fetched += LINE + LINE
        while position < end:
            at = np.uint64(places[position]) * stride + offset
            vector = times_plus(slope, entries[position] - anchor, value)
            before = load(vectors, at, lanes) if keep is None else zeros(vectors, lanes)
            vector = plus(before, vector) if factors is None else times_plus(vector, factors[position], before)
            store(vectors, at, vector)
            position += ONE
