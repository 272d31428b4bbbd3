"""Answers drawn by their chances."""

from __future__ import annotations

import numpy as np
import torch

from capse.arrays import Float32s, Float64s, Int32s, Int64s
from capse.kernels.motifs.loops import entry
from capse.kernels.threads import in_threads


def draw(chances: Float32s, rows: Int64s, uniform: Float32s) -> tuple[Int32s, Float64s]:
    """Draw n × K entities: the i-th K from row ``rows[i]`` of ``chances`` (B, E), by numbers (n, K) from 0 up to 1.

    Rows ascend; they need not sum to 1. Also returns the chance q of each that was drawn, 0 where a row is all zeros.

    >>> drawn, q = draw(np.array([[0.0, 1.0, 3.0]], np.float32), np.array([0]), np.array([[0.1, 0.9]], np.float32))
    >>> drawn.tolist(), q.tolist()
    ([[1, 2]], [[0.25, 0.75]])
    """
    drawn, q = np.zeros(uniform.shape, np.int32), np.zeros(uniform.shape, np.float64)
    in_threads(_draw_share, torch.get_num_threads(), chances, rows, uniform, drawn, q)
    return drawn, q


def _draw_share(
    share: int, shares: int, chances: Float32s, rows: Int64s, uniform: Float32s, drawn: Int32s, q: Float64s
) -> None:
    first, last = np.searchsorted(rows, [len(chances) * number // shares for number in (share, share + 1)])
    _draw(chances, rows[first:last], uniform[first:last], drawn[first:last], q[first:last])


@entry
def _draw(chances, rows, uniform, drawn, q):  # type: ignore[no-untyped-def]
    sums = np.empty(chances.shape[1], np.float64)
    kept = -1
    for i in range(len(rows)):
        if rows[i] != kept:
            kept = rows[i]
            total = 0.0
            for entity in range(len(sums)):
                total += chances[kept, entity]
                sums[entity] = total
        total = sums[-1]
        if total <= 0.0:
            continue
        for j in range(uniform.shape[1]):
            wanted = uniform[i, j] * total
            low, high = 0, len(sums) - 1
            while low < high:
                middle = (low + high) // 2
                if sums[middle] > wanted:
                    high = middle
                else:
                    low = middle + 1
            drawn[i, j] = low
            q[i, j] = chances[kept, low] / total
