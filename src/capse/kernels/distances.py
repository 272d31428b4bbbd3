"""Distances from every query vector to every candidate vector."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from capse.kernels.compiled import compiled, compiled_for_one_thread, in_torchs_threads, prange

TILE = 256  # candidates whose transposed vectors stay in the cache while all queries pass over them
QUERIES = 4  # whose gradients are added in one pass over a tile
STEP = 4  # dimensions added in one pass over a tile: fewer loads and stores of the running sums


def pairwise_distances(queries: Tensor, candidates: Tensor, norm: Literal[1, 2] = 1) -> Tensor:
    """``out[b, e] = ‖queries[b] − candidates[e]‖_p``, p = ``norm``: (B, k), (E, k) -> (B, E).

    On the CPU the k terms are added in order for each pair, so equal candidates are at exactly equal distances wherever
    they stand in the table, whatever the number of queries and of threads. (A matrix product promises neither.)
    Off the CPU, and where a gradient of L2 is wanted, this is ``torch.cdist`` without its matrix product.

    >>> pairwise_distances(torch.tensor([[0.0, 1.0]]), torch.tensor([[0.0, 0.0], [3.0, -3.0]]), norm=2)
    tensor([[1., 5.]])
    """
    wants_gradient = torch.is_grad_enabled() and (queries.requires_grad or candidates.requires_grad)
    on_cpu = queries.device.type == "cpu" and queries.dtype in (torch.float32, torch.float64)
    if _compiled_sums is None or not on_cpu or (wants_gradient and norm == 2):
        return torch.cdist(queries, candidates, p=norm, compute_mode="donot_use_mm_for_euclid_dist")
    if wants_gradient:
        distances: Tensor = _L1.apply(queries, candidates)  # type: ignore[no-untyped-call]
        return distances
    sums = _summed(queries, candidates, squared=norm == 2)
    return sums.sqrt_() if norm == 2 else sums


class _L1(torch.autograd.Function):
    """torch.cdist's gradient of L1 takes one thread ten times as long."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, candidates: Tensor) -> Tensor:
        ctx.save_for_backward(queries, candidates)
        return _summed(queries, candidates, squared=False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        arrays = (x.detach().contiguous().numpy() for x in (*ctx.saved_tensors, gradient))
        of_queries, of_candidates = in_torchs_threads(_compiled_gradient, *arrays)
        return torch.from_numpy(of_queries.sum(0)), torch.from_numpy(of_candidates)


def _summed(queries: Tensor, candidates: Tensor, *, squared: bool) -> Tensor:
    padded = F.pad(queries.detach(), (0, -queries.shape[1] % STEP))
    arrays = padded.contiguous().numpy(), candidates.detach().contiguous().numpy()
    sums = in_torchs_threads(_compiled_sums, *arrays, squared)
    return torch.from_numpy(sums)


def _sums(queries, candidates, squared):  # type: ignore[no-untyped-def]
    sums = np.zeros((len(queries), len(candidates)), queries.dtype)
    for tile in prange((len(candidates) + TILE - 1) // TILE):
        start = tile * TILE
        tile_candidates = candidates[start : start + TILE]
        # (k up to a multiple of STEP, tile): SIMD runs across candidates; a padded |0 − 0| adds exactly nothing.
        vectors = np.zeros((queries.shape[1], len(tile_candidates)), queries.dtype)
        vectors[: candidates.shape[1]] = tile_candidates.T
        for b in range(len(queries)):
            query = queries[b]
            total = sums[b, start : start + TILE]
            for j in range(0, len(query), STEP):
                v0, v1, v2, v3 = vectors[j], vectors[j + 1], vectors[j + 2], vectors[j + 3]
                q0, q1, q2, q3 = query[j], query[j + 1], query[j + 2], query[j + 3]
                if squared:
                    for e in range(len(total)):
                        d0, d1, d2, d3 = v0[e] - q0, v1[e] - q1, v2[e] - q2, v3[e] - q3
                        total[e] = total[e] + d0 * d0 + d1 * d1 + d2 * d2 + d3 * d3
                else:
                    for e in range(len(total)):
                        total[e] = total[e] + abs(v0[e] - q0) + abs(v1[e] - q1) + abs(v2[e] - q2) + abs(v3[e] - q3)
    return sums


def _gradient(queries, candidates, gradient):  # type: ignore[no-untyped-def]
    """Of queries, a part (B, k) for each tile that it is the sum of, and of candidates (C, k), given that of (B, C)."""
    tiles = (len(candidates) + TILE - 1) // TILE
    of_queries = np.zeros((tiles, len(queries), queries.shape[1]), queries.dtype)
    of_candidates = np.empty_like(candidates)
    for tile in prange(tiles):
        start = tile * TILE
        vectors = candidates[start : start + TILE].T.copy()  # (k, tile)
        of_vectors = np.zeros_like(vectors)
        for b in range(0, len(queries), QUERIES):
            # The last queries are filled up with copies of the very last, whose gradient is taken to be zero.
            rows = np.minimum(np.arange(b, b + QUERIES), len(queries) - 1)
            given = np.zeros((QUERIES, len(vectors[0])), queries.dtype)
            given[: len(queries) - b] = gradient[b : b + QUERIES, start : start + TILE]
            sums = np.zeros((QUERIES, len(vectors)), queries.dtype)
            for j in range(len(vectors)):
                _add_slopes(queries[rows, j], vectors[j], given, of_vectors[j], sums[:, j])
            of_queries[tile, b : b + QUERIES] = sums[: len(queries) - b]
        of_candidates[start : start + TILE] = of_vectors.T
    return of_queries, of_candidates


@partial(compiled_for_one_thread, any_order=True)
def _add_slopes(queries, column, given, of_column, of_queries):  # type: ignore[no-untyped-def]
    """Adds given·sign(query − entry) over a column's entries, and takes it from ``of_column``, for four queries."""
    q0, q1, q2, q3 = queries[0], queries[1], queries[2], queries[3]
    g0, g1, g2, g3 = given[0], given[1], given[2], given[3]
    zero = column.dtype.type(0)
    t0, t1, t2, t3 = zero, zero, zero, zero
    for e in range(len(column)):
        v = column[e]
        s0 = g0[e] if q0 > v else (-g0[e] if q0 < v else zero)
        s1 = g1[e] if q1 > v else (-g1[e] if q1 < v else zero)
        s2 = g2[e] if q2 > v else (-g2[e] if q2 < v else zero)
        s3 = g3[e] if q3 > v else (-g3[e] if q3 < v else zero)
        of_column[e] -= (s0 + s1) + (s2 + s3)
        t0, t1, t2, t3 = t0 + s0, t1 + s1, t2 + s2, t3 + s3
    of_queries[0], of_queries[1], of_queries[2], of_queries[3] = t0, t1, t2, t3


_compiled_sums = compiled(_sums)
_compiled_gradient = compiled(_gradient)
