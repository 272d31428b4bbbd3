"""Distances from every query vector to every candidate vector."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from capse.kernels.compiled import compiled, prange

TILE = 256  # candidates whose transposed vectors stay in the cache while all queries pass over them
STEP = 4  # dimensions added in one pass over a tile: fewer loads and stores of the running sums


def pairwise_distances(queries: Tensor, candidates: Tensor, norm: Literal[1, 2] = 1) -> Tensor:
    """``out[b, e] = ‖queries[b] − candidates[e]‖_p``, p = ``norm``: (B, k), (E, k) -> (B, E).

    On the CPU the k terms are added in order for each pair, so equal candidates are at exactly equal distances wherever
    they stand in the table, whatever the number of queries and of threads. (A matrix product promises neither.)
    Where a gradient is wanted, and off the CPU, this is ``torch.cdist`` without its matrix product.

    >>> pairwise_distances(torch.tensor([[0.0, 1.0]]), torch.tensor([[0.0, 0.0], [3.0, -3.0]]), norm=2)
    tensor([[1., 5.]])
    """
    wants_gradient = torch.is_grad_enabled() and (queries.requires_grad or candidates.requires_grad)
    on_cpu = queries.device.type == "cpu" and queries.dtype in (torch.float32, torch.float64)
    if _compiled_sums is None or wants_gradient or not on_cpu:
        return torch.cdist(queries, candidates, p=norm, compute_mode="donot_use_mm_for_euclid_dist")
    padded = F.pad(queries.detach(), (0, -queries.shape[1] % STEP))
    sums = torch.from_numpy(
        _compiled_sums(padded.contiguous().numpy(), candidates.detach().contiguous().numpy(), norm == 2)
    )
    return sums.sqrt_() if norm == 2 else sums


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


_compiled_sums = compiled(_sums)
