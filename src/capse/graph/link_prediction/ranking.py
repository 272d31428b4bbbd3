"""Where the true head, tail or relation of each triple ranks among all that could stand there."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from capse.errors import SettingsError
from capse.evaluation.query_ranks import rank_answers
from capse.evaluation.ranks import NonFiniteScoreError, Ranks
from capse.models.base import TripleModel
from capse.models.candidates import distinct_rows
from capse.processes.group import Group
from capse.triples import HEAD, RELATION, TAIL, Answers, Ids, TripleIndex, Triples

# A float32 score, a copy of it while it is made, and room for comparisons.
BYTES_PER_SCORE = 12
# Beyond these, larger chunks are no faster.
MOST_CPU_MEMORY = 256 * 2**20
MOST_GPU_MEMORY = 2**30


_GIVEN = {HEAD: (RELATION, TAIL), TAIL: (RELATION, HEAD), RELATION: (HEAD, TAIL)}  # what a query for each consists of

Progress = Callable[[int, int], None]  # ranks done, of so many
Describe = Callable[[int, int, int], str]  # the ids of a triple in words, for an error


class Scorable(Protocol):
    """What is asked of a model: scores of all E entities in the free slot, higher meaning more plausible."""

    @property
    def device(self) -> torch.device: ...

    def score_tails(self, heads: Tensor, relations: Tensor, /) -> Tensor:
        """Ids (B,), (B,) -> scores (B, E)."""

    def score_heads(self, relations: Tensor, tails: Tensor, /) -> Tensor:
        """Ids (B,), (B,) -> scores (B, E)."""


@runtime_checkable
class RelationScorable(Scorable, Protocol):
    """A model that scores all R relations too."""

    def score_relations(self, heads: Tensor, tails: Tensor, /) -> Tensor:
        """Ids (B,), (B,) -> scores (B, R)."""


def rank_split(
    model: Scorable,
    triples: Triples,
    known: TripleIndex | None,
    *,
    memory: int | None = None,
    exact: bool = False,
    progress: Progress | None = None,
    describe: Describe = "head {}, relation {}, tail {}".format,
    group: Group | None = None,
) -> tuple[Ranks, Ranks]:
    """Where the true head and the true tail of each triple (n, 3) stand among all entities.

    Known triples do not compete (filtered ranks); without an index of them everything does (raw ranks). Each distinct
    query is scored once, in chunks whose scores take less than ``memory`` bytes. ``exact`` ranks are those of the
    model in float64, whatever its own precision. ``progress`` is told how many of the 2n ranks are done, and 2n;
    ``describe`` puts the ids of a triple into words for an error. A ``group`` of processes that have the same model
    divides the queries.
    """
    heads, tails = _rank(model, triples, known, (HEAD, TAIL), memory, exact, progress, describe, group)
    return heads, tails


def rank_relations(
    model: RelationScorable,
    triples: Triples,
    known: TripleIndex | None,
    *,
    memory: int | None = None,
    exact: bool = False,
    progress: Progress | None = None,
    describe: Describe = "head {}, relation {}, tail {}".format,
    group: Group | None = None,
) -> Ranks:
    """Where the relation of each triple (n, 3) stands among all relations; for the rest see `rank_split`."""
    (ranks,) = _rank(model, triples, known, (RELATION,), memory, exact, progress, describe, group)
    return ranks


def _rank(
    model: Any,
    triples: Triples,
    known: TripleIndex | None,
    slots: tuple[int, ...],
    memory: int | None,
    exact: bool,
    progress: Progress | None,
    describe: Describe,
    group: Group | None,
) -> list[Ranks]:
    """The ranks of what stands in each of the slots."""
    done = 0

    def advance(ranks: int) -> None:
        nonlocal done
        done += ranks
        if progress:
            progress(done, len(slots) * len(triples))

    with torch.no_grad(), evaluation_mode(model):
        replica = _Replica(model) if exact else None
        return [_rank_slot(model, replica, triples, known, free, memory, advance, describe, group) for free in slots]


class _Replica:
    """A model in float64. Of candidates with equal vectors it scores one, so that they tie."""

    def __init__(self, model: Scorable) -> None:
        if not isinstance(model, TripleModel):
            raise SettingsError(f"exact ranks of a {type(model).__name__}", "they need a TripleModel")
        if not model.has_exact_ranks:
            said = "this model ranks by rounded scores, or by motifs too, so it has no exact ranks"
            raise SettingsError(said, "leave out --exact")
        self.model = copy.deepcopy(model).double()
        _, place = distinct_rows(self.model.entities.detach())
        self.first = np.unique(place.cpu().numpy(), return_index=True)[1][place.cpu().numpy()]

    def score(self, free: int, first: Ids, second: Ids, candidates: Ids) -> Tensor:
        if free == RELATION:
            return _score(self.model, free, first, second)[:, torch.from_numpy(candidates).to(self.model.device)]
        distinct, place = np.unique(self.first[candidates], return_inverse=True)
        c, of_candidate = (torch.from_numpy(ids).to(self.model.device) for ids in (distinct, place))
        return _score(self.model, free, first, second, c)[:, of_candidate]


def _score(model: Any, free: int, first: Ids, second: Ids, *candidates: Tensor) -> Tensor:
    """The scores (B, C) of what may stand in the free slot, the other two (B,) being in the order of `_GIVEN`."""
    one, other = (torch.from_numpy(ids).to(model.device) for ids in (first, second))
    if free == RELATION:
        scores: Tensor = model.score_relations(one, other)
    elif free == HEAD:
        scores = model.score_heads(one, other, *candidates)
    else:
        scores = model.score_tails(other, one, *candidates)
    return scores


def _rank_slot(
    model: Any,
    replica: _Replica | None,
    triples: Triples,
    known: TripleIndex | None,
    free: int,
    memory: int | None,
    advance: Callable[[int], None],
    describe: Describe,
    group: Group | None,
) -> Ranks:
    def excluded(first: Ids, second: Ids) -> Answers | None:
        if known is None:
            return None
        if free == RELATION:
            return known.between(first, second)
        return known.heads(first, second) if free == HEAD else known.tails(second, first)

    first, second = (triples[:, slot].astype(np.int64) for slot in _GIVEN[free])
    try:
        return rank_answers(
            first,
            second,
            triples[:, free],
            score=partial(_score, model, free),
            excluded=excluded,
            most_rows=_rows_within(memory, model, _score(model, free, first[:1], second[:1]).shape[1]),
            advance=advance,
            rescore=None if replica is None else partial(replica.score, free),
            group=group,
        )
    except NonFiniteScoreError as error:
        triple = triples[error.row].tolist()
        triple[free] = error.candidate
        raise NonFiniteScoreError(error.score, error.row, error.candidate, describe(*triple)) from None


def _rows_within(memory: int | None, model: Scorable, candidates: int) -> int:
    row = candidates * BYTES_PER_SCORE
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
def evaluation_mode(model: Scorable) -> Iterator[None]:
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
