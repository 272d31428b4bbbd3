"""Each candidate's votes: its piece in every dimension, found by binary search, and d multiply-adds.

A candidate's votes depend on the query and its own vector alone, to the last bit.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from capse.kernels.gpu.squash import squash_factor
from capse.kernels.gpu.tables import chunks, padded, prepare, tabulate
from capse.kernels.stage import Stage

WARPS = 4
TILE = 32 * WARPS  # candidates: each thread searches for one, and with fewer, threads would search for the same
GROUP = 16  # lanes that a program adds up: with more there are too few registers


def votes(stage: Stage, slot: int, first: Tensor, second: Tensor, candidates: Tensor) -> Tensor:
    """See `capse.kernels.gpu.votes`."""
    k, count, d = stage.weights.shape
    queries, size, summed = len(first), len(candidates), stage.routing == 1
    result = candidates.new_empty((queries, size, d) if summed else (queries, size, k, d))
    if not result.numel():
        return result
    filters, columns = prepare(stage, slot), candidates.T.contiguous()
    lanes = min(GROUP, triton.next_power_of_2(d))
    for chunk in chunks(filters, queries):
        tables = tabulate(filters, first[chunk], second[chunk])
        _look_up[(len(tables.keys) * triton.cdiv(size, TILE), triton.cdiv(d, lanes))](
            columns,
            tables.tree,
            tables.anchors,
            tables.rows,
            tables.squares,
            result[chunk],
            k,
            size,
            N=count,
            STEPS=count.bit_length(),
            D=d,
            WIDTH=padded(d),
            TILE=TILE,
            LANES=lanes,
            SUMMED=summed,
            SQUASH=filters.squash,
            EPSILON=filters.epsilon,
            num_warps=WARPS,
        )
    return result


@triton.jit
def find_squares(squares, piece, y):  # type: ignore[no-untyped-def]
    """‖u‖² at y beyond the anchors of pieces, and its derivative."""
    c0, c1, c2 = tl.load(squares + piece * 3), tl.load(squares + piece * 3 + 1), tl.load(squares + piece * 3 + 2)
    return tl.maximum(c0 + y * (c1 + y * c2), 0.0), c1 + 2 * y * c2


@triton.jit
def _step(tree, node, x):  # type: ignore[no-untyped-def]
    """From nodes of a tree to their left children, or to the right ones where the key is at most x."""
    return 2 * node + (tl.load(tree + node) <= x).to(tl.int32)


@triton.jit
def _add(  # type: ignore[no-untyped-def]
    total,
    result,
    inside,
    x,
    piece,
    anchors,
    rows,
    squares,
    WIDTH: tl.constexpr,
    LANES: tl.constexpr,
    SUMMED: tl.constexpr,
    SQUASH: tl.constexpr,
    EPSILON: tl.constexpr,
):
    """The total with one dimension's votes, or these stored and the total as it was."""
    anchor = tl.load(anchors + piece)
    pair = tl.program_id(1) * 2 * LANES + tl.arange(0, 2 * LANES)
    row = tl.load(rows + ((piece * (2 * WIDTH))[:, None] + pair[None, :]), (pair < 2 * WIDTH)[None, :])
    value, slope = tl.split(tl.reshape(row, [x.shape[0], LANES, 2]))
    vote = value + slope * (x - anchor)[:, None]
    if SQUASH:
        square, _ = find_squares(squares, piece, x.to(tl.float64) - anchor)
        vote *= squash_factor(square.to(x.dtype), EPSILON)[:, None]
    if SUMMED:
        total += vote
    else:
        tl.store(result, vote, inside)
    return total


@triton.jit
def _look_up(  # type: ignore[no-untyped-def]
    columns,
    tree,
    anchors,
    rows,
    squares,
    result,
    k,
    C,
    N: tl.constexpr,
    STEPS: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    LANES: tl.constexpr,
    SUMMED: tl.constexpr,
    SQUASH: tl.constexpr,
    EPSILON: tl.constexpr,
):
    """A tile of candidates for one query: some lanes of the sum of their votes over dimensions, or of each one's."""
    KEYS: tl.constexpr = 1 << STEPS
    PIECES: tl.constexpr = N + 1
    tiles = tl.cdiv(C, TILE)
    query = (tl.program_id(0) // tiles).to(tl.int64)
    candidate = tl.program_id(0) % tiles * TILE + tl.arange(0, TILE)
    is_candidate = candidate < C
    lane = tl.program_id(1) * LANES + tl.arange(0, LANES)
    inside = is_candidate[:, None] & (lane < D)[None, :]
    columns += candidate
    tree += query * k * KEYS
    anchors += query * k * PIECES
    rows += query * k * PIECES * 2 * WIDTH
    squares += query * k * PIECES * 3
    result += (query * C + candidate)[:, None] * (D if SUMMED else k * D) + lane[None, :]

    total = tl.zeros([TILE, LANES], result.dtype.element_ty)
    root = tl.full([TILE], 1, tl.int32)
    for _ in range(k // 4):  # four dimensions at a time: while one waits for memory, the others go on
        x0, x1 = tl.load(columns, is_candidate, 0.0), tl.load(columns + C, is_candidate, 0.0)
        x2, x3 = tl.load(columns + 2 * C, is_candidate, 0.0), tl.load(columns + 3 * C, is_candidate, 0.0)
        n0, n1, n2, n3 = root, root, root, root
        for _ in tl.static_range(STEPS):
            n0, n1 = _step(tree, n0, x0), _step(tree + KEYS, n1, x1)
            n2, n3 = _step(tree + 2 * KEYS, n2, x2), _step(tree + 3 * KEYS, n3, x3)
        p0, p1, p2, p3 = n0 - KEYS, n1 - KEYS + PIECES, n2 - KEYS + 2 * PIECES, n3 - KEYS + 3 * PIECES
        total = _add(total, result, inside, x0, p0, anchors, rows, squares, WIDTH, LANES, SUMMED, SQUASH, EPSILON)
        total = _add(total, result + D, inside, x1, p1, anchors, rows, squares, WIDTH, LANES, SUMMED, SQUASH, EPSILON)
        total = _add(
            total, result + 2 * D, inside, x2, p2, anchors, rows, squares, WIDTH, LANES, SUMMED, SQUASH, EPSILON
        )
        total = _add(
            total, result + 3 * D, inside, x3, p3, anchors, rows, squares, WIDTH, LANES, SUMMED, SQUASH, EPSILON
        )
        columns += 4 * C
        tree += 4 * KEYS
        anchors += 4 * PIECES
        rows += 4 * PIECES * 2 * WIDTH
        squares += 4 * PIECES * 3
        result += 0 if SUMMED else 4 * D
    for _ in range(k % 4):
        x = tl.load(columns, is_candidate, 0.0)
        node = root
        for _ in tl.static_range(STEPS):
            node = _step(tree, node, x)
        total = _add(
            total, result, inside, x, node - KEYS, anchors, rows, squares, WIDTH, LANES, SUMMED, SQUASH, EPSILON
        )
        columns += C
        tree += KEYS
        anchors += PIECES
        rows += PIECES * 2 * WIDTH
        squares += PIECES * 3
        result += 0 if SUMMED else D
    if SUMMED:
        tl.store(result, total, inside)
