"""Ranks of the true answers of many queries, in chunks of bounded memory, each distinct query scored once.

Several processes divide the chunks among themselves. Which queries make a chunk does not depend on how many they are,
so that every score, and with it every tie, is that of one process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from capse.evaluation.ranks import NonFiniteScoreError, Ranks, rank_scores
from capse.processes.group import Group
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
    group: Group | None = None,
) -> Ranks:
    """Rank the answer ``true[i]`` of the query (``first[i]``, ``second[i]``), for each of n queries.

    ``score`` gives B queries' scores (B, E) of all candidates and is asked for at most ``most_rows`` at a time;
    ``excluded`` gives the candidates that do not compete. ``advance`` is told how many ranks each step has added. With
    ``rescore``, which gives B queries' float64 scores (B, C) of chosen candidates, ranks are those of float64. The
    processes of a ``group`` ask the same and get the same, each having done its share.

    >>> import torch
    >>> ranks = rank_answers(
    ...     first=np.array([0, 0, 0]), second=np.array([4, 7, 4]), true=np.array([0, 2, 1]),
    ...     score=lambda first, second: torch.tensor([[0.5, 0.1, 0.9]]).repeat(len(second), 1),
    ...     excluded=lambda first, second: None, most_rows=10, advance=lambda ranks: None,
    ... )
    >>> ranks.realistic
    array([2., 1., 3.])
    """
    group = group or Group()
    # Equal first ids stand together: some models project all candidates once per relation.
    width = int(second.max(initial=0)) + 1
    distinct, row = np.unique(np.asarray(first, np.int64) * width + second, return_inverse=True)
    first, second = np.divmod(distinct, width)
    by_row = np.argsort(row, kind="stable")
    # Chunks of nearly equal size, so that none is a straggler of a few rows.
    chunks = -(-len(distinct) // -group.most(-most_rows)[0])  # as many as the process with the least room needs
    bounds = np.linspace(0, len(distinct), chunks + 1).astype(np.int64)
    counts = np.zeros((len(true), 3), np.int64)  # of others' queries nothing: they are added
    error: NonFiniteScoreError | None = None
    for start, stop in list(pairwise(bounds))[group.rank :: group.size]:
        begin, end = np.searchsorted(row[by_row], [start, stop])
        members = by_row[begin:end]
        pairs = first[start:stop], second[start:stop]
        again = rescore and partial(_rescore_rows, rescore, *pairs)
        try:
            found = rank_scores(
                score(*pairs), true[members], excluded(*pairs), rows=row[members] - start, rescore=again
            )
        except NonFiniteScoreError as raised:
            error = NonFiniteScoreError(raised.score, int(np.argmax(row == raised.row + start)), raised.candidate)
            break
        counts[members] = np.column_stack([found.greater, found.equal, found.candidates])
        advance(len(members))
    raise_any(error, group)
    if group.size > 1:
        advance(int((counts[:, 2] == 0).sum()))
    return Ranks(*group.total(torch.from_numpy(counts)).numpy().T.copy())


def raise_any(error: NonFiniteScoreError | None, group: Group) -> None:
    """The same error in every process, if there is one in any."""
    own = torch.tensor([[error.score, error.row, error.candidate]] if error else [], dtype=torch.float64)
    found = torch.cat(group.gather(own.view(-1, 3))).tolist()
    if found:
        score, row, candidate = found[0]
        raise NonFiniteScoreError(score, int(row), int(candidate))


def _rescore_rows(
    rescore: Callable[[Ids, Ids, Ids], Tensor], first: Ids, second: Ids, rows: Ids, candidates: Ids
) -> Tensor:
    return rescore(first[rows], second[rows], candidates)
