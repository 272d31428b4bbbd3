"""Link prediction: ask a model for the head and for the tail of every test triple, and see where the true one ranks."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from capse.errors import DataError, SettingsError
from capse.evaluation.breakdowns import break_down, summarize_sides
from capse.evaluation.intervals import bootstrap_interval
from capse.evaluation.metrics import Summary, contributions, named
from capse.evaluation.questions import rank_answers
from capse.evaluation.ranks import Float64s, NonFiniteScoreError, Ranks
from capse.graph.statistics import CATEGORIES, entity_frequency, has_unseen_entity, relation_categories
from capse.models.base import TripleModel, distinct_rows
from capse.triples import HEAD, RELATION, TAIL, Answers, Ids, TripleIndex, Triples

if TYPE_CHECKING:
    from capse.graph.dataset import Graph

# A float32 score, a copy of it while it is made, and room for comparisons.
BYTES_PER_SCORE = 12
# Beyond these, larger chunks are no faster.
MOST_CPU_MEMORY = 256 * 2**20
MOST_GPU_MEMORY = 2**30

FREQUENCY_BUCKETS = ("0", "1-3", "4-10", "11-30", "31-100", ">100")
FREQUENCY_EDGES = (1, 4, 11, 31, 101)  # where each bucket but the first begins

TIES_WORTH_A_WARNING = 0.01


class Scorable(Protocol):
    """What is asked of a model: scores of all E entities in the free slot, higher meaning more plausible."""

    @property
    def device(self) -> torch.device: ...

    def score_tails(self, heads: Tensor, relations: Tensor, /) -> Tensor:
        """Ids (B,), (B,) -> scores (B, E)."""

    def score_heads(self, relations: Tensor, tails: Tensor, /) -> Tensor:
        """Ids (B,), (B,) -> scores (B, E)."""


@dataclass(frozen=True)
class LinkPredictionResult:
    """Metrics of one model on one split, with the ranks that they came from."""

    dataset: str
    split: str
    triples: int
    unseen_triples: int  # counted in every figure: they have an entity that no training triple has
    seconds: float  # scoring and ranking, without loading and compiling
    filtered: bool  # whether other known triples were kept from competing
    exact: bool  # whether float64 decided what float32 could not
    metrics: dict[str, Summary]  # both, head, tail -> policy -> metric
    intervals: dict[str, Summary]  # both -> policy -> metric -> [low, high]
    breakdowns: dict[str, Any]  # relation, category, frequency -> group -> side -> policy -> metric
    warnings: list[str]
    heads: Ranks = field(repr=False)  # where the true head of each triple stands, in the split's order
    tails: Ranks = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """What ``capse evaluate --json`` prints."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("heads", "tails")}
        return {name: value for name, value in values.items() if value != {}}


def evaluate(
    model: Scorable,
    graph: Graph,
    split: str = "test",
    *,
    filtered: bool = True,
    memory: int | None = None,
    exact: bool = False,
    intervals: bool = True,
    breakdowns: bool = True,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> LinkPredictionResult:
    """Rank both sides of every triple of a split; ``seed`` is for the bootstrap, for the rest see ``rank_split``."""
    triples = graph.split(split)
    if not len(triples):
        raise DataError(f"{graph.name} has no {split} triples", "choose another split")
    ranked = partial(
        rank_split,
        model,
        known=graph.known if filtered else None,
        memory=memory,
        exact=exact,
        describe=partial(_describe, graph),
    )
    ranked(triples[:1])  # whatever compiles or is kept for later does so before the clock starts
    started = time.perf_counter()
    heads, tails = ranked(triples, progress=progress)
    seconds = time.perf_counter() - started

    of_head, of_tail = contributions(heads), contributions(tails)
    sides = {"both": (of_head + of_tail) / 2, "head": of_head, "tail": of_tail}
    metrics = summarize_sides(sides)
    return LinkPredictionResult(
        dataset=graph.name,
        split=split,
        triples=len(triples),
        unseen_triples=int(has_unseen_entity(graph, triples).sum()),
        seconds=seconds,
        filtered=filtered,
        exact=exact,
        metrics=metrics,
        intervals={"both": _bounds(sides["both"], seed)} if intervals else {},
        breakdowns=_breakdowns(graph, triples, sides) if breakdowns else {},
        warnings=_warnings(metrics["both"]),
        heads=heads,
        tails=tails,
    )


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
    question is scored once, in chunks whose scores take less than ``memory`` bytes. ``exact`` ranks are those of the
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
        twin = _Twin(model) if exact else None
        head_ranks, tail_ranks = (
            _rank_side(model, twin, triples, known, free, most_rows, advance, describe) for free in (HEAD, TAIL)
        )
    return head_ranks, tail_ranks


class _Twin:
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
    twin: _Twin | None,
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
            rescore=None if twin is None else partial(twin.score, free),
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
        raise SettingsError(f"{memory:,} bytes do not hold the scores of one question", f"allow {row:,} or more")
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


def _describe(graph: Graph, head: int, relation: int, tail: int) -> str:
    entities, relations = graph.entities.labels, graph.relations.labels
    return f"({entities[head]}, {relations[relation]}, {entities[tail]})"


def _bounds(values: Float64s, seed: int) -> Summary:
    return named(np.moveaxis(bootstrap_interval(values, seed=seed), 0, -1))


def _breakdowns(graph: Graph, triples: Triples, sides: dict[str, Float64s]) -> dict[str, Any]:
    relations = triples[:, RELATION]
    category = np.array([CATEGORIES.index(name) for name in relation_categories(graph)])
    answers = np.concatenate([triples[:, HEAD], triples[:, TAIL]])  # of the head queries, then of the tail queries
    queries = {"both": np.concatenate([sides["head"], sides["tail"]])}
    buckets = np.searchsorted(FREQUENCY_EDGES, entity_frequency(graph)[answers], side="right")
    return {
        "relation": break_down(sides, relations, graph.relations.labels, unit="triples"),
        "category": break_down(sides, category[relations], CATEGORIES, unit="triples"),
        "frequency": break_down(queries, buckets, FREQUENCY_BUCKETS, unit="queries"),
    }


def _warnings(metrics: Summary) -> list[str]:
    optimistic, realistic, pessimistic = (metrics[p]["mrr"] for p in ("optimistic", "realistic", "pessimistic"))
    if optimistic - pessimistic <= TIES_WORTH_A_WARNING:
        return []
    return [
        f"MRR is {optimistic:.3f} with ties counted for the true answer and {pessimistic:.3f} with ties counted against"
        f" it: many candidates get exactly the true answer's score. The optimistic figure is not to be trusted; quote"
        f" the realistic one, {realistic:.3f}."
    ]
