"""Link prediction: ask a model for the head and for the tail of every test triple, and see where the true one ranks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from capse.arrays import Float64s
from capse.errors import DataError
from capse.evaluation.breakdowns import break_down, summarize_sides
from capse.evaluation.intervals import bootstrap_interval
from capse.evaluation.metrics import Summary, contributions, named
from capse.evaluation.ranks import Ranks
from capse.graph.link_prediction.ranking import Scorable, rank_split
from capse.graph.statistics import CATEGORIES, entity_frequency, has_unseen_entity, relation_categories
from capse.triples import HEAD, RELATION, TAIL, TripleIndex, Triples

if TYPE_CHECKING:
    from capse.graph.dataset import Graph

FREQUENCY_BUCKETS = ("0", "1-3", "4-10", "11-30", "31-100", ">100")
FREQUENCY_EDGES = (1, 4, 11, 31, 101)  # where each bucket but the first begins

TIES_WORTH_A_WARNING = 0.01


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
    trained_on: Graph | None = None,
    filtered: bool = True,
    memory: int | None = None,
    exact: bool = False,
    intervals: bool = True,
    breakdowns: bool = True,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> LinkPredictionResult:
    """Rank both sides of every triple of a split; ``seed`` is for the bootstrap, for the rest see ``rank_split``.

    ``trained_on`` is the graph that the model was trained on where that is another, of the same vocabularies: its
    triples do not compete either, and unseen entities and frequencies are counted by it.
    """
    triples = graph.split(split)
    training, known = graph, graph.known
    if trained_on is not None:
        training = trained_on
        every = np.concatenate([trained_on.split("all"), graph.split("all")])
        known = TripleIndex(every, len(graph.entities), len(graph.relations))
    if not len(triples):
        raise DataError(f"{graph.name} has no {split} triples", "choose another split")
    ranked = partial(
        rank_split,
        model,
        known=known if filtered else None,
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
        unseen_triples=int(has_unseen_entity(training, triples).sum()),
        seconds=seconds,
        filtered=filtered,
        exact=exact,
        metrics=metrics,
        intervals={"both": _bounds(sides["both"], seed)} if intervals else {},
        breakdowns=_breakdowns(training, triples, sides) if breakdowns else {},
        warnings=_warnings(metrics["both"]),
        heads=heads,
        tails=tails,
    )


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
