"""Counts as float64 would have them, without scoring everything in float64.

Two float32 scores can be so near to each other that their order, or whether they tie, is a matter of rounding. Whatever
is that near to the true candidate's score is scored again in float64, and the counts are taken from there. How near is
too near follows from the differences between float32 and float64 that are found on the way.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from capse.arrays import Int64s
from capse.kernels.counting import Counts, count_competitors

BAND = 2e-5  # of a row's largest |score|: 1e-5 for the error of the true candidate's score, and 1e-5 for the other's
MARGIN = 4  # a band must be this many times the largest error found, or is widened to it
SAMPLE = 64  # candidates that are scored again wherever they stand, to find errors
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
    if finite.all() and len(rows):
        gaps = _rescore_near_ties(
            gaps, BAND * of_queries.abs().amax(dim=1, keepdim=True).double(), rows, place, rescore
        )
    lengths = np.diff(offsets)[rows]
    ends = np.cumsum(lengths)
    of_known = np.repeat(offsets[rows] - (ends - lengths), lengths) + np.arange(lengths.sum())
    counts = count_competitors(
        gaps, np.arange(len(rows)), true, np.concatenate([[0], ends]).astype(np.int64), known[of_known]
    )
    return counts._replace(finite=finite)


def _rescore_near_ties(gaps: Tensor, band: Tensor, rows: Int64s, place: Tensor, rescore: Rescore) -> Tensor:
    """Gaps (n, E) to the true candidates at ``place`` (n, 1), those within the band (n, 1) with float64's signs."""
    distinct, of_row = np.unique(rows, return_inverse=True)
    of_query = torch.from_numpy(of_row).to(gaps.device)
    sample = torch.zeros(gaps.shape[1], dtype=torch.bool, device=gaps.device)
    sample[:: max(1, gaps.shape[1] // SAMPLE)] = True
    while True:
        near = gaps.abs() <= band
        chosen = near.any(dim=0) | sample
        wide = rescore(distinct, chosen.nonzero()[:, 0].cpu().numpy())[of_query]
        wide = wide - wide.gather(1, (chosen.cumsum(0) - 1)[place])
        least = MARGIN * (gaps[:, chosen] - wide).abs().amax(dim=1, keepdim=True)
        if (least <= band).all() or chosen.all():
            return gaps.masked_scatter(near, wide[near[:, chosen]].sign().to(gaps.dtype))
        band = band.maximum(least)
