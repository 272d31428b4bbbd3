"""Queries' dimensions as tables over the pieces between their breakpoints: see `capse.kernels.cpu.pieces` for the why.

In dimension i of a query, filter n answers relu(a_n + w_n x) to a candidate's entry x. Filters are sorted by *key*, the
smallest float at which a filter has left its state at −∞. From piece j to the next, across keys[j], one filter turns
on, if w > 0, or off. What those that are on add up to is stored around an anchor, the piece's point nearest to zero:
value + slope·(x − anchor).

Sums run in fixed point, with 2^−61 of what could come together as the unit. They are as accurate as float64's, and in
whatever order they are taken, a filter that turns off takes back exactly what it brought. So candidates for which the
same filters are off tie exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

from capse.kernels.stage import Stage

TABLE_BYTES = 2**31  # bytes that the tables of the queries in hand may take
GROUP = 4  # lanes that a program adds up
BLOCK = 2048  # pieces times lanes that it adds up at a time
SHARE = 512  # those of a warp: with more there are too few registers
BITS = 61


class Filters(NamedTuple):
    """A stage as one slot's candidates meet it."""

    answers: Tensor  # the filters' weights for the two known slots and the candidate's, and their bias; float64, (4, N)
    weights: Tensor  # W_i transposed, (k, N, d)
    squash: bool  # whether the u_i are squashed, and with which ε
    epsilon: float


class Tables(NamedTuple):
    """The pieces of B queries' k dimensions."""

    keys: Tensor  # ascending, (B, k, N)
    order: Tensor  # the filters that they are of, (B, k, N)
    tree: Tensor  # the keys as a binary tree, a node's children at twice its place and next to that, (B, k, 2^steps)
    anchors: Tensor  # (B, k, N + 1)
    rows: Tensor  # for each lane the value at the anchor and the slope, (B, k, N + 1, width, 2)
    squares: Tensor  # c of ‖u(x)‖² = c0 + c1 y + c2 y², y = x − anchor; float64, (B, k, N + 1, 3), or nothing


def prepare(stage: Stage, slot: int) -> Filters:
    known = [other for other in range(3) if other != slot]
    answers = torch.cat([stage.filters[[*known, slot]], stage.bias.unsqueeze(0)]).double()
    return Filters(answers, stage.weights.contiguous(), stage.kind == "released", stage.epsilon)


def chunks(filters: Filters, queries: int, more: int = 0) -> Iterator[slice]:
    """Queries whose tables, and ``more`` bytes for each, fit in the room at a time."""
    k, count, d = filters.weights.shape
    piece = 2 * padded(d) * filters.weights.element_size() + 80
    size = max(1, TABLE_BYTES // (k * (count + 1) * piece + more))
    for start in range(0, queries, size):
        yield slice(start, min(start + size, queries))


def padded(d: int) -> int:
    """Lanes of a vector of d in a table: two of them, with their slopes, are what a thread loads at once."""
    return d if d == 1 else -(-d // 2) * 2


def tabulate(filters: Filters, first: Tensor, second: Tensor) -> Tables:
    """The tables of queries whose known vectors are ``first`` and ``second``, (B, k)."""
    k, count, d = filters.weights.shape
    queries, width = len(first), padded(d)
    a = (first.unsqueeze(-1) * filters.answers[0]).addcmul_(second.unsqueeze(-1).double(), filters.answers[1])
    a += filters.answers[3]
    units = _units(filters, a)
    keys, order, anchors = _pieces(a, filters.answers[2], first.dtype)
    rows = first.new_empty(queries, k, count + 1, width, 2)
    squares = a.new_empty((queries, k, count + 1, 3) if filters.squash else 0)
    inputs = first, second, filters.answers, filters.weights, order, anchors, units
    lanes = min(GROUP, triton.next_power_of_2(width))
    pieces = min(triton.next_power_of_2(count + 1), BLOCK // lanes)
    grid = queries * k, triton.cdiv(width, lanes)
    sizes = {"UNITS": units.shape[-1], "N": count, "D": d, "WIDTH": width, "PIECES": pieces, "LANES": lanes}
    _tabulate[grid](*inputs, rows, k, **sizes, num_warps=_warps(pieces * lanes))
    if filters.squash:
        pieces = min(triton.next_power_of_2(count + 1), BLOCK // 2)
        _tabulate_squares[grid[:1]](*inputs, squares, k, N=count, PIECES=pieces, num_warps=_warps(pieces * 2))
    return Tables(keys, order, _tree(keys), anchors, rows, squares)


def _warps(numbers: int) -> int:
    return max(1, numbers // SHARE)


def _units(filters: Filters, a: Tensor) -> Tensor:
    """Powers of two by which sums are multiplied to be integers: of a W and w W and, for squares, a², a w and w²."""
    w = filters.answers[2]
    largest = filters.weights.abs().amax((1, 2)).double()  # (k,)
    bounds = [a.abs().sum(-1) * largest, (w.abs().sum() * largest).expand(a.shape[:2])]
    if filters.squash:
        aa, ww = a.square().sum(-1), w.square().sum()
        bounds += [aa, (aa * ww).sqrt(), ww.expand_as(aa)]
    exponents = BITS - torch.stack(bounds, -1).frexp().exponent.long()
    return ((exponents.clamp(-1000, 1000) + 1023) << 52).view(torch.float64)


def _pieces(a: Tensor, w: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Sorted keys, the filters that they are of, and the anchors of the pieces between them.

    Filters that do not see x never turn: their key is +∞. Pieces that no float lies in have their anchor anywhere.
    """
    exact = (-a / w).masked_fill_(w == 0, torch.inf)
    crossings = exact.to(dtype)
    later = (crossings < exact) | ((crossings == exact) & (w > 0))
    above = crossings.nextafter(crossings.new_tensor(torch.inf))
    keys, order = torch.where(later, above, crossings).sort(stable=True)
    edges = crossings.gather(-1, order)
    anchors = F.pad(edges, (0, 1), value=torch.inf).clamp_(max=0).maximum(F.pad(edges, (1, 0), value=-torch.inf))
    return keys, order, anchors.masked_fill_(anchors.isinf(), 0)


def _tree(keys: Tensor) -> Tensor:
    """Sorted keys so that a search touches few lines of memory: those that it compares first stand together."""
    count = keys.shape[-1]
    node = torch.arange(1 << count.bit_length(), device=keys.device).clamp(min=1)
    level = node.double().frexp().exponent.long() - 1
    place = (2 * (node - (1 << level)) + 1) * (1 << (count.bit_length() - 1 - level)) - 1
    return F.pad(keys, (0, 1), value=torch.inf)[..., place.clamp(max=count)]


@triton.jit
def answer(answers, n, mask, first, second, N):  # type: ignore[no-untyped-def]
    """a and w of filters n; zero where masked."""
    of_first = tl.load(answers + n, mask, 0.0)
    of_second = tl.load(answers + N + n, mask, 0.0)
    w = tl.load(answers + 2 * N + n, mask, 0.0)
    return of_first * first + of_second * second + tl.load(answers + 3 * N + n, mask, 0.0), w


@triton.jit
def _starts_on(a, w):  # type: ignore[no-untyped-def]
    """1 for filters that are on at −∞."""
    return tl.where((w < 0) | ((w == 0) & (a > 0)), 1.0, 0.0).to(tl.float64)


@triton.jit
def _turns(w):  # type: ignore[no-untyped-def]
    """1 for filters that turn on at their key, −1 for those that turn off."""
    return tl.where(w > 0, 1.0, tl.where(w < 0, -1.0, 0.0)).to(tl.float64)


@triton.jit
def _tabulate(  # type: ignore[no-untyped-def]
    first,
    second,
    answers,
    weights,
    order,
    anchors,
    units,
    rows,
    k,
    UNITS: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    PIECES: tl.constexpr,
    LANES: tl.constexpr,
):
    """One dimension of one query, a group of lanes."""
    at = tl.program_id(0).to(tl.int64)
    lane = tl.program_id(1) * LANES + tl.arange(0, LANES)
    x1, x2 = tl.load(first + at).to(tl.float64), tl.load(second + at).to(tl.float64)
    value_unit, slope_unit = tl.load(units + at * UNITS), tl.load(units + at * UNITS + 1)
    weights += at % k * N * D + lane[None, :]
    order += at * N
    anchors += at * (N + 1)
    rows += at * (N + 1) * 2 * WIDTH
    is_lane = (lane < D)[None, :]
    block = tl.arange(0, PIECES)

    first_value, first_slope = tl.zeros([LANES], tl.int64), tl.zeros([LANES], tl.int64)
    for start in range(0, N, PIECES):
        n = start + block
        a, w = answer(answers, n, n < N, x1, x2, N)
        on = _starts_on(a, w)
        weight = tl.load(weights + n[:, None] * D, (on > 0)[:, None] & is_lane, 0.0).to(tl.float64)
        first_value += tl.sum(((a * value_unit)[:, None] * weight).to(tl.int64), 0)
        first_slope += tl.sum(((w * slope_unit)[:, None] * weight).to(tl.int64), 0)

    for start in range(0, N + 1, PIECES):
        piece = start + block
        n = tl.load(order + piece, piece < N, 0).to(tl.int32)
        a, w = answer(answers, n, piece < N, x1, x2, N)
        turn = _turns(w)
        weight = tl.load(weights + n[:, None] * D, (turn != 0)[:, None] & is_lane, 0.0).to(tl.float64)
        value_turn = ((a * turn * value_unit)[:, None] * weight).to(tl.int64)
        slope_turn = ((w * turn * slope_unit)[:, None] * weight).to(tl.int64)
        value = first_value[None, :] + tl.cumsum(value_turn, 0) - value_turn
        slope = first_slope[None, :] + tl.cumsum(slope_turn, 0) - slope_turn
        if PIECES <= N:
            first_value += tl.sum(value_turn, 0)
            first_slope += tl.sum(slope_turn, 0)
        anchor = tl.load(anchors + piece, piece <= N, 0.0).to(tl.float64)
        slope = slope.to(tl.float64) * (1 / slope_unit)
        value = value.to(tl.float64) * (1 / value_unit) + anchor[:, None] * slope
        place = rows + piece[:, None] * (2 * WIDTH) + 2 * lane[None, :]
        inside = (piece <= N)[:, None] & (lane < WIDTH)[None, :]
        tl.store(place, value, inside)
        tl.store(place + 1, slope, inside)


@triton.jit
def _tabulate_squares(  # type: ignore[no-untyped-def]
    first, second, answers, weights, order, anchors, units, squares, k, N: tl.constexpr, PIECES: tl.constexpr
):
    """‖u‖² in one dimension of one query."""
    at = tl.program_id(0).to(tl.int64)
    x1, x2 = tl.load(first + at).to(tl.float64), tl.load(second + at).to(tl.float64)
    aa_unit, aw_unit, ww_unit = tl.load(units + at * 5 + 2), tl.load(units + at * 5 + 3), tl.load(units + at * 5 + 4)
    order += at * N
    anchors += at * (N + 1)
    squares += at * (N + 1) * 3
    block = tl.arange(0, PIECES)

    first_aa, first_aw, first_ww = tl.zeros([], tl.int64), tl.zeros([], tl.int64), tl.zeros([], tl.int64)
    for start in range(0, N, PIECES):
        a, w = answer(answers, start + block, start + block < N, x1, x2, N)
        on = _starts_on(a, w)
        first_aa += tl.sum((a * a * aa_unit * on).to(tl.int64), 0)
        first_aw += tl.sum((a * w * aw_unit * on).to(tl.int64), 0)
        first_ww += tl.sum((w * w * ww_unit * on).to(tl.int64), 0)

    for start in range(0, N + 1, PIECES):
        piece = start + block
        a, w = answer(answers, tl.load(order + piece, piece < N, 0), piece < N, x1, x2, N)
        turn = _turns(w)
        aa_turn = (a * a * aa_unit * turn).to(tl.int64)
        aw_turn = (a * w * aw_unit * turn).to(tl.int64)
        ww_turn = (w * w * ww_unit * turn).to(tl.int64)
        aa = (first_aa + tl.cumsum(aa_turn, 0) - aa_turn).to(tl.float64) * (1 / aa_unit)
        aw = (first_aw + tl.cumsum(aw_turn, 0) - aw_turn).to(tl.float64) * (1 / aw_unit)
        ww = (first_ww + tl.cumsum(ww_turn, 0) - ww_turn).to(tl.float64) * (1 / ww_unit)
        if PIECES <= N:
            first_aa += tl.sum(aa_turn, 0)
            first_aw += tl.sum(aw_turn, 0)
            first_ww += tl.sum(ww_turn, 0)
        anchor = tl.load(anchors + piece, piece <= N, 0.0).to(tl.float64)
        place = squares + piece * 3
        tl.store(place, aa + anchor * (2 * aw + anchor * ww), piece <= N)
        tl.store(place + 1, 2 * (aw + anchor * ww), piece <= N)
        tl.store(place + 2, ww, piece <= N)
