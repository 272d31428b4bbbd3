"""Where true answers stand among candidates that a question restricts."""

from __future__ import annotations

import numpy as np
import torch

from capse.arrays import Float64s, Int64s
from capse.evaluation.ranks import NonFiniteScoreError, Ranks
from capse.graph.link_prediction.candidates import Candidates
from capse.graph.link_prediction.ranking import BYTES_PER_SCORE, MOST_CPU_MEMORY, Progress, Scorable, evaluation_mode
from capse.processes.group import Group
from capse.triples import HEAD, RELATION, TAIL, Answers, TripleIndex, Triples


@torch.no_grad()
def rank_among(
    model: Scorable,
    triples: Triples,
    known: TripleIndex | None,
    candidates: Candidates,
    progress: Progress | None = None,
    group: Group | None = None,
) -> tuple[Ranks, Ranks]:
    """Ranks of the true head and the true tail of each triple (n, 3) among its candidates and itself.

    Known triples do not compete. A true answer that is no candidate competes with those all the same. The processes of
    a ``group`` divide the questions.
    """
    with evaluation_mode(model):
        heads, tails = (
            _rank_side(model, triples, known, candidates, free, place * len(triples), progress, group or Group())
            for place, free in enumerate((HEAD, TAIL))
        )
    return heads, tails


def _rank_side(
    model: Scorable,
    triples: Triples,
    known: TripleIndex | None,
    candidates: Candidates,
    free: int,
    done: int,
    progress: Progress | None,
    group: Group,
) -> Ranks:
    counts = np.zeros((len(triples), 3), np.int64)  # greater, equal, candidates; of others' questions nothing
    order = np.argsort(triples[:, RELATION], kind="stable")  # some models project all entities once per relation
    first = model.score_tails(*torch.zeros(2, 1, dtype=torch.long, device=model.device))
    size = max(1, MOST_CPU_MEMORY // (BYTES_PER_SCORE * first.shape[1]))
    for start in range(group.rank * size, len(order), group.size * size):
        rows = order[start : start + size]
        heads, relations, tails = torch.from_numpy(triples[rows].astype(np.int64)).to(model.device).unbind(1)
        table = model.score_heads(relations, tails) if free == HEAD else model.score_tails(heads, relations)
        scores = table.double().cpu().numpy()
        facts = _facts(known, triples[rows], free)
        for place, row in enumerate(rows):
            h, r, t = triples[row].tolist()
            ids = candidates.of(h, r, t, free)
            counts[row] = _count(scores[place], int(triples[row, free]), ids, facts[place] if facts else None, int(row))
        if progress:
            progress(done + start + len(rows), 2 * len(triples))
    return Ranks(*group.total(torch.from_numpy(counts)).numpy().T.copy())


def _facts(known: TripleIndex | None, triples: Triples, free: int) -> Answers | None:
    if known is None:
        return None
    heads, relations, tails = triples.T
    return known.heads(relations, tails) if free == HEAD else known.tails(heads, relations)


def _count(scores: Float64s, true: int, ids: Int64s, facts: Int64s | None, row: int) -> tuple[int, int, int]:
    """Competitors that score higher and as high, and how many candidates there are, the true one among them."""
    rivals = ids[~np.isin(ids, [true] if facts is None else np.append(facts, true))]
    found = scores[rivals]
    if not np.isfinite(scores[true]) or not np.isfinite(found).all():
        wrong = true if not np.isfinite(scores[true]) else int(rivals[~np.isfinite(found)][0])
        raise NonFiniteScoreError(float(scores[wrong]), row, wrong)
    return int((found > scores[true]).sum()), int((found == scores[true]).sum()), len(rivals) + 1
