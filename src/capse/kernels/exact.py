"""Counts as float64 would have them, at little more than float32's price.

Two float32 scores can be so near to each other that their order, or whether they tie, is a matter of rounding. Whatever
is that near to the true candidate's score is scored again in float64, and the counts are taken from there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from capse.kernels.counting import Counts, Int64s, count_competitors

BAND = 2e-5  # of a row's largest |score|: 1e-5 for the error of the true candidate's score, and 1e-5 for the other's
GROUP = 64  # queries whose near candidates are scored again together

Rescore = Callable[[Int64s, Int64s], Tensor]  # rows (q,) and candidates (c,) to float64 scores (q, c)


def count_exactly(
    scores: Tensor, rows: Int64s, true: Int64s, offsets: Int64s, known: Int64s, rescore: Rescore
) -> Counts:
    """What `count_competitors` would count if ``scores`` (q, E) were float64's, of which ``rescore`` gives some."""
    parts = [
        _count_group(scores, rows[i : i + GROUP], true[i : i + GROUP], offsets, known, rescore)
        for i in range(0, max(1, len(rows)), GROUP)
    ]
    return Counts(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _count_group(
    scores: Tensor, rows: Int64s, true: Int64s, offsets: Int64s, known: Int64s, rescore: Rescore
) -> Counts:
    of_queries = scores[torch.from_numpy(rows).to(scores.device)]  # (n, E)
    finite = of_queries.isfinite().all(dim=1).cpu().numpy()
    place = torch.from_numpy(true).to(scores.device)[:, None]
    gaps = of_queries - of_queries.gather(1, place)  # above zero where a candidate is better than the true one
    near = gaps.abs() <= BAND * of_queries.abs().amax(dim=1, keepdim=True)
    chosen = near.any(dim=0)
    if finite.all() and len(rows):
        distinct, of_row = np.unique(rows, return_inverse=True)
        wide = rescore(distinct, chosen.nonzero()[:, 0].cpu().numpy())[torch.from_numpy(of_row).to(scores.device)]
        wide = wide - wide.gather(1, (chosen.cumsum(0) - 1)[place])
        gaps[:, chosen] = torch.where(near[:, chosen], wide.sign().to(gaps.dtype), gaps[:, chosen])
    lengths = np.diff(offsets)[rows]
    ends = np.cumsum(lengths)
    of_known = np.repeat(offsets[rows] - (ends - lengths), lengths) + np.arange(lengths.sum())
    counts = count_competitors(
        gaps, np.arange(len(rows)), true, np.concatenate([[0], ends]).astype(np.int64), known[of_known]
    )
    return counts._replace(finite=finite)
