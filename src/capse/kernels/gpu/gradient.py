"""The gradients of votes, at the price of the votes: O(k (N + C) d) for a query, whatever N is.

With g_e the gradient of candidate e's votes, that of its entry x_e is its piece's slope times g_e. Those of a filter
come from two sums over the candidates that it is on for, G = Σ_e g_e and X = Σ_e x_e g_e; along the sorted column these
are the first candidates, where w < 0, or the last ones. Then

    ∂W[n] = a_n G + w_n X             ∂a_n = W[n]·G             ∂w_n = W[n]·X

Where u is squashed, votes are f(‖u‖²) W u. Then g_e is first scaled by f, and s_e = f'(‖u‖²) (W u)·g_e, the gradient
of ‖u‖², adds 2 (a_n + w_n x_e) s_e to that of filter n's feature: three sums more, of s_e, x_e s_e and x_e² s_e.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from capse.kernels.gpu.lookup import find_squares
from capse.kernels.gpu.squash import squash_factor, squash_slope
from capse.kernels.gpu.tables import Filters, Tables, answer, chunks, padded, prepare, tabulate
from capse.kernels.stage import Gradients, Stage

STEP = 1024  # candidates times lanes that a warp adds up at a time
SHARE = 64  # filters times lanes that a warp finishes


def votes_gradient(
    stage: Stage, slot: int, first: Tensor, second: Tensor, candidates: Tensor, gradient: Tensor
) -> Gradients:
    """See `capse.kernels.gpu.votes_gradient`."""
    filters = prepare(stage, slot)
    k, count, d = stage.weights.shape
    of_first, of_second = torch.zeros_like(first), torch.zeros_like(second)
    of_entries = filters.answers.new_zeros(k, len(candidates))
    of_answers = torch.zeros_like(filters.answers)
    of_weights = filters.answers.new_zeros(k, count, d)
    if gradient.numel():
        entries, order = candidates.T.sort(stable=True)
        entries, order = entries.contiguous(), order.contiguous()
        of_sorted = torch.zeros_like(of_entries)
        more = k * (8 * (count + 1) * (2 * d + 5) + len(candidates) * candidates.element_size())
        for chunk in chunks(filters, len(first), more):
            known = first[chunk], second[chunk]
            sums = _add_up(filters, tabulate(filters, *known), entries, order, gradient[chunk], of_sorted)
            of_a, of_w = _into_filters(filters, *known, *sums, of_weights)
            of_first[chunk], of_second[chunk] = of_a @ filters.answers[0], of_a @ filters.answers[1]
            of_known = torch.stack(known).double().flatten(1) @ of_a.flatten(0, 1)
            of_answers += torch.cat([of_known, torch.stack([of_w.sum((0, 1)), of_a.sum((0, 1))])])
        of_entries.scatter_(1, order, of_sorted)
    of_filters = torch.empty_like(stage.filters)
    of_filters[[*(other for other in range(3) if other != slot), slot]] = of_answers[:3].to(of_filters.dtype)
    return Gradients(
        of_first,
        of_second,
        of_entries.T.to(candidates.dtype, memory_format=torch.contiguous_format),
        of_filters,
        of_answers[3].to(stage.bias.dtype),
        of_weights.to(stage.weights.dtype),
    )


def _add_up(
    filters: Filters, tables: Tables, entries: Tensor, order: Tensor, gradient: Tensor, of_entries: Tensor
) -> tuple[Tensor, Tensor]:
    """Sums of g and x g over the candidates below each filter's key and, last, over all: float64, (B, k, N + 1, 2, d).

    The second result has those of s, x s and x² s, (B, k, N + 1, 3), where u is squashed. The gradients of sorted
    entries are added to ``of_entries``, (k, C).
    """
    queries, k, count = tables.keys.shape
    d, size = filters.weights.shape[2], entries.shape[1]
    below = torch.searchsorted(entries, tables.keys.transpose(0, 1).flatten(1).contiguous(), out_int32=True)
    linear = of_entries.new_empty(queries, k, count + 1, 2, d)
    squares = of_entries.new_empty((queries, k, count + 1, 3) if filters.squash else 0)
    changes = entries.new_empty(queries, k, size)
    _add_up_below_keys[(queries * k,)](
        entries,
        order,
        below,
        tables.order,
        tables.anchors,
        tables.rows,
        tables.squares,
        gradient,
        linear,
        squares,
        changes,
        queries,
        k,
        size,
        TILE=max(16, STEP // triton.next_power_of_2(d)),
        SUMMED=gradient.dim() == 3,
        **_constants(filters),
        num_warps=1,
    )
    of_entries += changes.sum(0, dtype=of_entries.dtype)
    return linear, squares


def _into_filters(
    filters: Filters, first: Tensor, second: Tensor, linear: Tensor, squares: Tensor, of_weights: Tensor
) -> tuple[Tensor, Tensor]:
    """From sums to the gradients of a and w, (B, k, N) each; those of the weights are added to ``of_weights``."""
    k, count, d = filters.weights.shape
    of_a, of_w = linear.new_empty(2, len(first), k, count)
    rows = max(1, SHARE // triton.next_power_of_2(d))
    _push_to_filters[(k, triton.cdiv(count, rows))](
        first,
        second,
        filters.answers,
        filters.weights,
        linear,
        squares,
        of_a,
        of_w,
        of_weights,
        len(first),
        k,
        ROWS=rows,
        **_constants(filters),
        num_warps=1,
    )
    return of_a, of_w


def _constants(filters: Filters) -> dict[str, Any]:
    _, count, d = filters.weights.shape
    return {
        "N": count,
        "D": d,
        "WIDTH": padded(d),
        "LANES": triton.next_power_of_2(d),
        "SQUASH": filters.squash,
        "EPSILON": filters.epsilon,
    }


@triton.jit
def _add_up_below_keys(  # type: ignore[no-untyped-def]
    entries,
    order,
    below,
    filters,
    anchors,
    rows,
    coefficients,
    gradient,
    linear,
    squares,
    changes,
    B,
    k,
    C,
    TILE: tl.constexpr,
    SUMMED: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    LANES: tl.constexpr,
    SQUASH: tl.constexpr,
    EPSILON: tl.constexpr,
):
    """One dimension of one query, along the sorted column, in steps of TILE candidates.

    Within a step sums run in the numbers' own precision, from step to step in float64.
    """
    at = tl.program_id(0).to(tl.int64)
    query, i = at // k, at % k
    entries += i * C
    order += i * C
    below += (i * B + query) * N
    filters += at * N
    anchors += at * (N + 1)
    rows += at * (N + 1) * 2 * WIDTH
    coefficients += at * (N + 1) * 3
    gradient += query * C * D if SUMMED else (query * C * k + i) * D
    linear += at * (N + 1) * 2 * D
    squares += at * (N + 1) * 3
    changes += at * C
    block, lane = tl.arange(0, TILE), tl.arange(0, LANES)
    is_lane = (lane < D)[None, :]

    of_g, of_xg = tl.zeros([LANES], tl.float64), tl.zeros([LANES], tl.float64)
    of_s, of_xs, of_xxs = tl.zeros([], tl.float64), tl.zeros([], tl.float64), tl.zeros([], tl.float64)
    rank = 0
    end = tl.load(below)  # how many candidates lie below the key at this rank
    for start in range(0, C, TILE):
        place = start + block
        inside = place < C
        x = tl.load(entries + place, inside, 0.0)
        whose = tl.load(order + place, inside, 0)
        g_place = gradient + whose[:, None] * (D if SUMMED else k * D) + lane[None, :]
        g = tl.load(g_place, inside[:, None] & is_lane, 0.0)

        piece = tl.zeros([TILE], tl.int32) + rank
        next_rank = rank
        while end <= start + TILE:
            piece += (place >= end).to(tl.int32)
            next_rank += 1
            end = tl.load(below + next_rank, next_rank < N, C + TILE + 1)
        row = rows + piece[:, None] * (2 * WIDTH) + 2 * lane[None, :]
        slope = tl.load(row + 1, is_lane, 0.0)
        change = tl.sum(slope * g, 1)
        if SQUASH:
            y = x - tl.load(anchors + piece)
            vote = tl.sum((tl.load(row, is_lane, 0.0) + slope * y[:, None]) * g, 1)
            square, of_x = find_squares(coefficients, piece, y.to(tl.float64))
            f = squash_factor(square, EPSILON)
            s = squash_slope(square, EPSILON) * vote
            xs = x * s
            xxs = x * xs
            g *= f.to(g.dtype)[:, None]
            tl.store(changes + place, f * change + s * of_x, inside)
        else:
            tl.store(changes + place, change, inside)

        xg = x[:, None] * g
        for below_rank in range(rank, next_rank):
            is_below = place < tl.load(below + below_rank)
            n = tl.load(filters + below_rank)
            pair = linear + n * 2 * D + lane
            tl.store(pair, of_g + tl.sum(tl.where(is_below[:, None], g, 0.0), 0), lane < D)
            tl.store(pair + D, of_xg + tl.sum(tl.where(is_below[:, None], xg, 0.0), 0), lane < D)
            if SQUASH:
                tl.store(squares + n * 3, of_s + tl.sum(tl.where(is_below, s, 0.0), 0))
                tl.store(squares + n * 3 + 1, of_xs + tl.sum(tl.where(is_below, xs, 0.0), 0))
                tl.store(squares + n * 3 + 2, of_xxs + tl.sum(tl.where(is_below, xxs, 0.0), 0))
        rank = next_rank
        of_g += tl.sum(g, 0)
        of_xg += tl.sum(xg, 0)
        if SQUASH:
            of_s += tl.sum(s, 0)
            of_xs += tl.sum(xs, 0)
            of_xxs += tl.sum(xxs, 0)
    tl.store(linear + N * 2 * D + lane, of_g, lane < D)
    tl.store(linear + N * 2 * D + D + lane, of_xg, lane < D)
    if SQUASH:
        tl.store(squares + N * 3, of_s)
        tl.store(squares + N * 3 + 1, of_xs)
        tl.store(squares + N * 3 + 2, of_xxs)


@triton.jit
def _push_to_filters(  # type: ignore[no-untyped-def]
    first,
    second,
    answers,
    weights,
    linear,
    squares,
    of_a,
    of_w,
    of_weights,
    B,
    k,
    ROWS: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    LANES: tl.constexpr,
    SQUASH: tl.constexpr,
    EPSILON: tl.constexpr,
):
    """Some filters in one dimension, the queries in turn."""
    i = tl.program_id(0).to(tl.int64)
    n = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    is_filter = n < N
    lane = tl.arange(0, LANES)
    is_lane = lane < D
    inside = is_filter[:, None] & is_lane[None, :]
    place = (i * N + n)[:, None] * D + lane[None, :]
    weight = tl.load(weights + place, inside, 0.0).to(tl.float64)
    total = tl.load(of_weights + place, inside, 0.0)
    for query in range(B):
        at = query * k + i
        a, w = answer(answers, n, is_filter, tl.load(first + at), tl.load(second + at), N)
        turns_on, is_dead = w > 0, (w == 0) & (a <= 0)
        sums, everything = linear + (at * (N + 1) + n[:, None]) * 2 * D, linear + (at * (N + 1) + N) * 2 * D + lane
        g, xg = tl.load(sums + lane[None, :], inside, 0.0), tl.load(sums + D + lane[None, :], inside, 0.0)
        all_g, all_xg = tl.load(everything, is_lane, 0.0), tl.load(everything + D, is_lane, 0.0)
        g = tl.where(turns_on[:, None], all_g[None, :] - g, tl.where(is_dead[:, None], 0.0, g))
        xg = tl.where(turns_on[:, None], all_xg[None, :] - xg, tl.where(is_dead[:, None], 0.0, xg))
        total += a[:, None] * g + w[:, None] * xg
        change_a, change_w = tl.sum(weight * g, 1), tl.sum(weight * xg, 1)
        if SQUASH:
            triple, everything = squares + (at * (N + 1) + n) * 3, squares + (at * (N + 1) + N) * 3
            s = tl.load(triple, is_filter, 0.0)
            xs = tl.load(triple + 1, is_filter, 0.0)
            xxs = tl.load(triple + 2, is_filter, 0.0)
            s = tl.where(turns_on, tl.load(everything) - s, tl.where(is_dead, 0.0, s))
            xs = tl.where(turns_on, tl.load(everything + 1) - xs, tl.where(is_dead, 0.0, xs))
            xxs = tl.where(turns_on, tl.load(everything + 2) - xxs, tl.where(is_dead, 0.0, xxs))
            change_a += 2 * (a * s + w * xs)
            change_w += 2 * (a * xs + w * xxs)
        tl.store(of_a + at * N + n, change_a, is_filter)
        tl.store(of_w + at * N + n, change_w, is_filter)
    tl.store(of_weights + place, total, inside)
