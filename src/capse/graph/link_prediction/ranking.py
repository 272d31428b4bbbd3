"""Where the true head and the true tail of each triple rank among all entities."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from capse.errors import SettingsError
from capse.evaluation.query_ranks import rank_answers
from capse.evaluation.ranks import NonFiniteScoreError, Ranks
from capse.models.base import TripleModel, distinct_rows
from capse.triples import HEAD, RELATION, TAIL, Answers, Ids, TripleIndex, Triples

# A float32 score, a copy of it while it is made, and room for comparisons.
BYTES_PER_SCORE = 12
# Beyond these, larger chunks are no faster.
MOST_CPU_MEMORY = 256 * 2**20
MOST_GPU_MEMORY = 2**30


class Scorable(Protocol):
    """What is asked of a model: scores of all E entities in the free slot, higher meaning more plausible."""

    @property
    def device(self) -> torch.device: ...

    def score_tails(self, heads: Tensor, relations: Tensor, /) -> Tensor:
        """Ids (B,), (B,) -> scores (B, E)."""

    def score_heads(self, relations: Tensor, tails: Tensor, /) -> Tensor:
        """Ids (B,), (B,) -> scores (B, E)."""


def rank_split(
    model: Scorable,
    triples: Triples,
    known: TripleIndex | None,
    *,
    memory: int | None = None,
    exact: bool = False,
    progress: Callable[[int, int], None] | None = None,
    describe: Callable[[int, int, int], str] = "head {}, relation {}, tail {}".format,
) -> tuple[Ranks, Ranks]:
    """Where the true head and the true tail of each triple (n, 3) stand among all entities.

    Known triples do not compete (filtered ranks); without an index of them everything does (raw ranks). Each distinct
    query is scored once, in chunks whose scores take less than ``memory`` bytes. ``exact`` ranks are those of the
    model in float64, whatever its own precision. ``progress`` is told how many of the 2n ranks are done, and 2n;
    ``describe`` puts the ids of a triple into words for an error.
    """
    done = 0

    def advance(ranks: int) -> None:
        nonlocal done
        done += ranks
        if progress:
            progress(done, 2 * len(triples))

    with torch.no_grad(), _evaluation_mode(model):
        most_rows = _rows_within(memory, model, triples)
        replica = _Replica(model) if exact else None
        head_ranks, tail_ranks = (
            _rank_side(model, replica, triples, known, free, most_rows, advance, describe) for free in (HEAD, TAIL)
        )
    return head_ranks, tail_ranks


class _Replica:
    """A model in float64. Of candidates with equal vectors it scores one, so that they tie."""

    def __init__(self, model: Scorable) -> None:
        if not isinstance(model, TripleModel):
            raise SettingsError(f"exact ranks of a {type(model).__name__}", "they need a TripleModel")
        if model.scorer.rounds_scores:
            raise SettingsError("this model ranks by rounded scores, so it has no exact ranks", "leave out --exact")
        self.model = copy.deepcopy(model).double()
        _, place = distinct_rows(self.model.entities.detach())
        self.first = np.unique(place.cpu().numpy(), return_index=True)[1][place.cpu().numpy()]

    def score(self, free: int, relations: Ids, entities: Ids, candidates: Ids) -> Tensor:
        distinct, place = np.unique(self.first[candidates], return_inverse=True)
        r, e, c, of_candidate = (
            torch.from_numpy(ids).to(self.model.device) for ids in (relations, entities, distinct, place)
        )
        scores = self.model.score_heads(r, e, c) if free == HEAD else self.model.score_tails(e, r, c)
        return scores[:, of_candidate]


def _rank_side(
    model: Scorable,
    replica: _Replica | None,
    triples: Triples,
    known: TripleIndex | None,
    free: int,
    most_rows: int,
    advance: Callable[[int], None],
    describe: Callable[[int, int, int], str],
) -> Ranks:
    def score(relations: Ids, entities: Ids) -> Tensor:
        r, e = (torch.from_numpy(ids).to(model.device) for ids in (relations, entities))
        return model.score_heads(r, e) if free == HEAD else model.score_tails(e, r)

    def excluded(relations: Ids, entities: Ids) -> Answers | None:
        if known is None:
            return None
        return known.heads(relations, entities) if free == HEAD else known.tails(entities, relations)

    given = TAIL if free == HEAD else HEAD
    try:
        return rank_answers(
            triples[:, RELATION],
            triples[:, given],
            triples[:, free],
            score=score,
            excluded=excluded,
            most_rows=most_rows,
            advance=advance,
            rescore=None if replica is None else partial(replica.score, free),
        )
    except NonFiniteScoreError as error:
        triple = triples[error.row].tolist()
        triple[free] = error.candidate
        raise NonFiniteScoreError(error.score, error.row, error.candidate, describe(*triple)) from None


def _rows_within(memory: int | None, model: Scorable, triples: Triples) -> int:
    head, relation, _ = torch.from_numpy(triples[:1].astype(np.int64)).to(model.device).unbind(1)
    row = model.score_tails(head, relation).shape[1] * BYTES_PER_SCORE
    if memory is None:
        return max(1, _memory_for_scores(model.device) // row)
    if memory < row:
        raise SettingsError(f"{memory:,} bytes do not hold the scores of one query", f"allow {row:,} or more")
    return memory // row


def _memory_for_scores(device: torch.device) -> int:
    if device.type == "cuda":
        return min(MOST_GPU_MEMORY, torch.cuda.mem_get_info(device)[0] // 4)
    return MOST_CPU_MEMORY


@contextmanager
def _evaluation_mode(model: Scorable) -> Iterator[None]:
    """Without dropout, and with every module back in its own mode afterwards."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    modes = [module.training for module in modules]
    try:
        for module in modules:
            module.training = False
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
