"""Ranks of the true answers of many queries, in chunks of bounded memory, each distinct query scored once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
from torch import Tensor

from capse.evaluation.ranks import NonFiniteScoreError, Ranks, rank_scores
from capse.triples import Answers, Ids


def rank_answers(
    first: Ids,
    second: Ids,
    true: Ids,
    *,
    score: Callable[[Ids, Ids], Tensor],
    excluded: Callable[[Ids, Ids], Answers | None],
    most_rows: int,
    advance: Callable[[int], None],
    rescore: Callable[[Ids, Ids, Ids], Tensor] | None = None,
) -> Ranks:
    """Rank the answer ``true[i]`` of the query (``first[i]``, ``second[i]``), for each of n queries.

    ``score`` gives B queries' scores (B, E) of all candidates and is asked for at most ``most_rows`` at a time;
    ``excluded`` gives the candidates that do not compete. ``advance`` is told how many ranks each step has added. With
    ``rescore``, which gives B queries' float64 scores (B, C) of chosen candidates, ranks are those of float64.

    >>> import torch
    >>> ranks = rank_answers(
    ...     first=np.array([0, 0, 0]), second=np.array([4, 7, 4]), true=np.array([0, 2, 1]),
    ...     score=lambda first, second: torch.tensor([[0.5, 0.1, 0.9]]).repeat(len(second), 1),
    ...     excluded=lambda first, second: None, most_rows=10, advance=lambda ranks: None,
    ... )
    >>> ranks.realistic
    array([2., 1., 3.])
    """
    # Equal first ids stand together: some models project all candidates once per relation.
    width = int(second.max(initial=0)) + 1
    distinct, row = np.unique(np.asarray(first, np.int64) * width + second, return_inverse=True)
    first, second = np.divmod(distinct, width)
    by_row = np.argsort(row, kind="stable")
    # Chunks of nearly equal size, so that none is a straggler of a few rows.
    chunks = -(-len(distinct) // most_rows)
    bounds = np.linspace(0, len(distinct), chunks + 1).astype(np.int64)
    parts = []
    for start, stop in pairwise(bounds):
        begin, end = np.searchsorted(row[by_row], [start, stop])
        members = by_row[begin:end]
        pairs = first[start:stop], second[start:stop]
        again = rescore and partial(_rescore_rows, rescore, *pairs)
        try:
            parts.append(
                rank_scores(score(*pairs), true[members], excluded(*pairs), rows=row[members] - start, rescore=again)
            )
        except NonFiniteScoreError as error:
            query = int(np.argmax(row == error.row + start))
            raise NonFiniteScoreError(error.score, query, error.candidate) from None
        advance(len(members))
    place = np.empty_like(by_row)
    place[by_row] = np.arange(len(by_row))
    return Ranks.concatenate(parts)[place]


def _rescore_rows(
    rescore: Callable[[Ids, Ids, Ids], Tensor], first: Ids, second: Ids, rows: Ids, candidates: Ids
) -> Tensor:
    return rescore(first[rows], second[rows], candidates)
