"""Scores of a batch of triples with their gradient, by compiled loops: what training with sampled corruptions asks for.

Plain torch writes all k·N features of a batch to memory, reads them back for the product with W, and does the same
with their gradients. Here the features of one dimension, (N, T) for T triples, are made, used and forgotten while they
are in the cache; the gradient makes them again, which is cheaper than keeping them. What it must equal is
`reference.score`; what follows the votes is that function's own code.

One thread does it, for the reasons given in `capse.kernels.fused`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from capse.kernels.cpu.loops import cached, inlined_in_any_order
from capse.kernels.cpu.squash import squash_factor, squash_slope
from capse.kernels.reference import read_out
from capse.kernels.stage import Stage

TILE = 256  # triples at a time: with N = 50 their features of one dimension take 50 KiB


def score_batch(stage: Stage, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
    """The scores (...) of triples given as vectors h, r, t (..., k) that broadcast; all of it on the CPU."""
    triples = torch.stack([x.reshape(-1, x.shape[-1]) for x in torch.broadcast_tensors(h, r, t)])  # (3, T, k)
    votes: Tensor = _Votes.apply(stage, triples, stage.filters, stage.bias, stage.weights)  # type: ignore[no-untyped-call]
    shape = torch.broadcast_shapes(h.shape, r.shape, t.shape)[:-1]
    return read_out(stage, votes).view(shape)


class _Votes(torch.autograd.Function):
    """û summed over dimensions, (T, d), where there is one routing iteration, else each of them, (T, k, d)."""

    @staticmethod
    def forward(ctx: Any, stage: Stage, triples: Tensor, filters: Tensor, bias: Tensor, weights: Tensor) -> Tensor:
        by_dimension = triples.permute(2, 0, 1).contiguous()  # (k, 3, T)
        ctx.save_for_backward(by_dimension, filters, bias, weights)
        ctx.stage = stage
        k, _, count = by_dimension.shape
        votes = triples.new_zeros(1 if stage.routing == 1 else k, weights.shape[2], count)
        _forward(*_arrays(by_dimension, filters, bias, weights), _epsilon(stage), votes.numpy())
        return votes[0].T.contiguous() if stage.routing == 1 else votes.permute(2, 0, 1).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        tensors = ctx.saved_tensors
        of_votes = (gradient.unsqueeze(1) if gradient.ndim == 2 else gradient).permute(1, 2, 0).contiguous()
        gradients = [torch.zeros_like(x, memory_format=torch.contiguous_format) for x in tensors]
        _backward(*_arrays(*tensors), _epsilon(ctx.stage), of_votes.numpy(), *(x.numpy() for x in gradients))
        of_triples, *others = gradients
        return None, of_triples.permute(1, 2, 0), *others


def _arrays(*tensors: Tensor) -> list[Any]:
    return [x.detach().contiguous().numpy() for x in tensors]


def _epsilon(stage: Stage) -> float:
    """Under the root of the squash of first-layer capsules; below zero where they are not squashed."""
    return stage.epsilon if stage.kind == "released" else -1.0


@inlined_in_any_order
def _features(triples, filters, bias, features):  # type: ignore[no-untyped-def]
    """relu(ω·[h, r, t] + b) of one dimension: triples (3, T) to features (N, T). NaN stays NaN."""
    h, r, t = triples[0], triples[1], triples[2]
    zero = features.dtype.type(0)
    for n in range(len(features)):
        f0, f1, f2, b, row = filters[0, n], filters[1, n], filters[2, n], bias[n], features[n]
        for c in range(len(row)):
            x = f0 * h[c] + f1 * r[c] + f2 * t[c] + b
            row[c] = zero if x <= 0 else x


@inlined_in_any_order
def _add_product(a, b, out):  # type: ignore[no-untyped-def]
    """out (p, T) += aᵀ b for a (q, p), b (q, T): eight rows of b at a time, so that out is seldom read and written."""
    n = 0
    while n + 8 <= len(b):
        b0, b1, b2, b3, b4, b5, b6, b7 = b[n], b[n + 1], b[n + 2], b[n + 3], b[n + 4], b[n + 5], b[n + 6], b[n + 7]
        for j in range(len(out)):
            a0, a1, a2, a3 = a[n, j], a[n + 1, j], a[n + 2, j], a[n + 3, j]
            a4, a5, a6, a7 = a[n + 4, j], a[n + 5, j], a[n + 6, j], a[n + 7, j]
            row = out[j]
            for c in range(len(row)):
                low = a0 * b0[c] + a1 * b1[c] + a2 * b2[c] + a3 * b3[c]
                row[c] += low + a4 * b4[c] + a5 * b5[c] + a6 * b6[c] + a7 * b7[c]
        n += 8
    while n + 2 <= len(b):
        b0, b1 = b[n], b[n + 1]
        for j in range(len(out)):
            a0, a1, row = a[n, j], a[n + 1, j], out[j]
            for c in range(len(row)):
                row[c] += a0 * b0[c] + a1 * b1[c]
        n += 2
    if n < len(b):
        b0 = b[n]
        for j in range(len(out)):
            a0, row = a[n, j], out[j]
            for c in range(len(row)):
                row[c] += a0 * b0[c]


@inlined_in_any_order
def _add_inner_products(a, b, out):  # type: ignore[no-untyped-def]
    """out (p, q) += a bᵀ for a (p, T), b (q, T)."""
    zero = out.dtype.type(0)
    for j in range(len(b)):
        row = b[j]
        n = 0
        while n + 4 <= len(a):
            a0, a1, a2, a3 = a[n], a[n + 1], a[n + 2], a[n + 3]
            s0, s1, s2, s3 = zero, zero, zero, zero
            for c in range(len(row)):
                s0 += a0[c] * row[c]
                s1 += a1[c] * row[c]
                s2 += a2[c] * row[c]
                s3 += a3[c] * row[c]
            out[n, j] += s0
            out[n + 1, j] += s1
            out[n + 2, j] += s2
            out[n + 3, j] += s3
            n += 4
        while n < len(a):
            a0, s0 = a[n], zero
            for c in range(len(row)):
                s0 += a0[c] * row[c]
            out[n, j] += s0
            n += 1


@inlined_in_any_order
def _squares(features, squares):  # type: ignore[no-untyped-def]
    """‖u‖² of each triple's capsule: features (N, T) to (T,)."""
    squares[:] = 0
    for n in range(len(features)):
        row = features[n]
        for c in range(len(row)):
            squares[c] += row[c] * row[c]


@partial(cached, any_order=True)
def _forward(triples, filters, bias, weights, epsilon, votes):  # type: ignore[no-untyped-def]
    """Adds to votes, (1, d, T) for their sum or (k, d, T) for each dimension's."""
    k, count, d = weights.shape
    for start in range(0, triples.shape[2], TILE):
        tile = triples[:, :, start : start + TILE].copy()
        size = tile.shape[2]
        features, own = np.empty((count, size), tile.dtype), np.empty((d, size), tile.dtype)
        squares = np.empty(size, tile.dtype)
        for i in range(k):
            _features(tile[i], filters, bias, features)
            own[:] = 0
            _add_product(weights[i], features, own)
            if epsilon >= 0:
                _squares(features, squares)
            for j in range(d):
                row, total = own[j], votes[min(i, len(votes) - 1), j, start : start + size]
                if epsilon < 0:
                    for c in range(size):
                        total[c] += row[c]
                else:
                    for c in range(size):
                        total[c] += squash_factor(squares[c], tile.dtype.type(epsilon)) * row[c]


@inlined_in_any_order
def _through_squash(own, epsilon, squares, given, along):  # type: ignore[no-untyped-def]
    """The votes' gradient ``given`` (d, T) becomes that of the products ``own``, and ``along`` (T,) what squashing adds
    to the gradient of each capsule, as a multiple of the capsule; ``squares`` are used up."""
    along[:] = 0
    for j in range(len(own)):
        for c in range(len(along)):
            along[c] += given[j, c] * own[j, c]
    for c in range(len(along)):
        along[c] *= 2 * squash_slope(squares[c], epsilon)
        squares[c] = squash_factor(squares[c], epsilon)
    for j in range(len(own)):
        for c in range(len(along)):
            given[j, c] *= squares[c]


@inlined_in_any_order
def _through_relu(features, slopes, squashed, along, of_bias):  # type: ignore[no-untyped-def]
    """The gradient of relu's outputs (N, T) becomes that of its inputs, and is added to the bias's."""
    zero = slopes.dtype.type(0)
    for n in range(len(features)):
        feature, slope, total = features[n], slopes[n], zero
        if squashed:
            for c in range(len(feature)):
                slope[c] += along[c] * feature[c]
        for c in range(len(feature)):
            s = zero if feature[c] <= 0 else slope[c]
            slope[c] = s
            total += s
        of_bias[n] += total


@partial(cached, any_order=True)
def _backward(  # type: ignore[no-untyped-def]
    triples, filters, bias, weights, epsilon, of_votes, of_triples, of_filters, of_bias, of_weights
):
    """Adds the gradients of all that the votes are made of, given theirs, (1, d, T) or (k, d, T)."""
    k, count, d = weights.shape
    number = triples.dtype.type
    for start in range(0, triples.shape[2], TILE):
        tile = triples[:, :, start : start + TILE].copy()
        size = tile.shape[2]
        features, slopes = np.empty((count, size), tile.dtype), np.empty((count, size), tile.dtype)
        given, own = np.empty((d, size), tile.dtype), np.empty((d, size), tile.dtype)
        squares, along, of_tile = (
            np.empty(size, tile.dtype),
            np.empty(size, tile.dtype),
            np.empty((3, size), tile.dtype),
        )
        for i in range(k):
            given[:] = of_votes[min(i, len(of_votes) - 1), :, start : start + size]
            _features(tile[i], filters, bias, features)
            if epsilon >= 0:
                _squares(features, squares)
                own[:] = 0
                _add_product(weights[i], features, own)
                _through_squash(own, number(epsilon), squares, given, along)
            _add_inner_products(features, given, of_weights[i])
            slopes[:] = 0
            _add_product(weights[i].T, given, slopes)
            _through_relu(features, slopes, epsilon >= 0, along, of_bias)
            of_tile[:] = 0
            _add_product(filters.T, slopes, of_tile)
            of_triples[i, :, start : start + size] = of_tile
            _add_inner_products(tile[i], slopes, of_filters)
