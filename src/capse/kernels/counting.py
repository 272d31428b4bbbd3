"""How many candidates score higher than the true one, and how many exactly the same.

Known answers are not masked out of the score matrix. Everything is counted, then what the known answers contributed is
taken back, which costs one look-up per known answer instead of a pass over the matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from capse.arrays import Int64s
from capse.kernels.compiled import compiled, in_torchs_threads, prange


class Counts(NamedTuple):
    """Of n queries, each an array of shape (n,)."""

    greater: Int64s  # competitors that score higher than the true candidate
    equal: Int64s  # competitors with exactly its score, itself not counted
    competitors: Int64s  # candidates that are neither the true one nor another known answer
    finite: npt.NDArray[np.bool_]  # whether every score in the query's row is a finite number


def count_competitors(scores: Tensor, rows: Int64s, true: Int64s, offsets: Int64s, known: Int64s) -> Counts:
    """Compare candidate ``true[i]`` of row ``rows[i]`` with the other candidates of that row.

    ``scores`` is (q, E), ``rows`` and ``true`` are (n,); row j's known answers, which do not compete, are the distinct
    numbers ``known[offsets[j]:offsets[j + 1]]``.
    """
    if _compiled_count is not None and scores.device.type == "cpu" and scores.dtype in (torch.float32, torch.float64):
        return _count_with_numba(scores, rows, true, offsets, known)
    return count_with_torch(scores, rows, true, offsets, known)


def _count_with_numba(scores: Tensor, rows: Int64s, true: Int64s, offsets: Int64s, known: Int64s) -> Counts:
    greater, equal, competitors = np.empty((3, len(rows)), np.int64)
    counts = Counts(greater, equal, competitors, np.empty(len(rows), np.bool_))
    matrix = scores.detach().contiguous().numpy()
    in_torchs_threads(_compiled_count, matrix, rows, true, offsets, known, *counts)
    return counts


def _count(scores, rows, true, offsets, known, greater, equal, competitors, finite):  # type: ignore[no-untyped-def]
    for query in prange(len(rows)):
        row = scores[rows[query]]
        candidate = true[query]
        score = row[candidate]
        higher = 0
        at_least = 0
        numbers = 0
        # `if` and `+= 1` over a range is the form that LLVM turns into vector compares; `+= (a > b)` is not.
        for entity in range(len(row)):
            if row[entity] > score:
                higher += 1
            if row[entity] >= score:
                at_least += 1
            if abs(row[entity]) < np.inf:
                numbers += 1
        rivals = len(row) - 1
        for position in range(offsets[rows[query]], offsets[rows[query] + 1]):
            entity = known[position]
            if entity != candidate:
                rivals -= 1
                if row[entity] > score:
                    higher -= 1
                if row[entity] >= score:
                    at_least -= 1
        greater[query] = higher
        equal[query] = at_least - higher - 1
        competitors[query] = rivals
        finite[query] = numbers == len(row)


_compiled_count = compiled(_count)


def count_with_torch(scores: Tensor, rows: Int64s, true: Int64s, offsets: Int64s, known: Int64s) -> Counts:
    """The same counts on any device; only they leave it."""
    on_device = [torch.from_numpy(array).to(scores.device) for array in (rows, true, offsets, known)]
    # As many queries at a time as the matrix has rows: what is made on the way is then never larger than the matrix.
    block = max(1, len(scores))
    parts = [
        _count_block(scores, on_device[0][i : i + block], on_device[1][i : i + block], *on_device[2:])
        for i in range(0, max(1, len(rows)), block)
    ]
    return Counts(*(torch.cat(columns).cpu().numpy() for columns in zip(*parts, strict=True)))


def _count_block(scores: Tensor, rows: Tensor, true: Tensor, offsets: Tensor, known: Tensor) -> tuple[Tensor, ...]:
    candidates = scores[rows]  # (n, E)
    score = candidates.gather(1, true[:, None])  # (n, 1)
    greater = (candidates > score).sum(dim=1)
    equal = (candidates == score).sum(dim=1) - 1
    finite = candidates.isfinite().all(dim=1)

    # One entry per pair of a query and one of its known answers.
    lengths = (offsets[1:] - offsets[:-1])[rows]
    query = torch.repeat_interleave(lengths)
    first = offsets[rows] - (lengths.cumsum(0) - lengths)
    entity = known[first[query] + torch.arange(len(query), device=scores.device)]
    other = entity != true[query]
    query, entity = query[other], entity[other]
    answer = candidates[query, entity]
    greater.index_add_(0, query, (answer > score[query, 0]).long(), alpha=-1)
    equal.index_add_(0, query, (answer == score[query, 0]).long(), alpha=-1)
    competitors = scores.shape[1] - 1 - torch.bincount(query, minlength=len(rows))
    return greater, equal, competitors, finite
