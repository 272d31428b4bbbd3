"""Link prediction: ask a model for the head and for the tail of every test triple, and see where the true one ranks."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from capse.arrays import Float32s, Float64s
from capse.errors import DataError, SettingsError
from capse.evaluation.adjusted import adjusted, macro_average
from capse.evaluation.breakdowns import break_down, summarize_sides
from capse.evaluation.intervals import bootstrap_interval
from capse.evaluation.metrics import Summary, contributions, named, summarize
from capse.evaluation.ranks import Ranks
from capse.graph.link_prediction.candidates import Candidates
from capse.graph.link_prediction.ranking import Progress, RelationScorable, Scorable, rank_relations, rank_split
from capse.graph.link_prediction.restricted_ranking import rank_among
from capse.graph.statistics import CATEGORIES, entity_frequency, has_unseen_entity, relation_categories, remembered
from capse.processes.group import Group
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
    seconds: float  # scoring and ranking entities, without loading and compiling
    filtered: bool  # whether other known triples were kept from competing
    exact: bool  # whether float64 decided what float32 could not
    metrics: dict[str, Summary]  # both, head, tail, and relation where relations were ranked -> policy -> metric
    intervals: dict[str, Summary]  # both -> policy -> metric -> [low, high]
    breakdowns: dict[str, Any]  # relation, category, frequency -> group -> side -> policy -> metric
    warnings: list[str]
    adjusted: dict[str, Summary]  # both, head, tail -> policy -> amri, adjusted_mrr: 0 is chance
    macro: dict[str, Summary]  # both, head, tail -> policy -> metric, every relation counting the same
    restricted: dict[str, Any]  # ranks among chosen candidates, where asked for: their name, metrics, adjusted
    weighted: dict[str, Summary]  # both, head, tail -> policy -> metric, triples counting as they weigh; {} without
    heads: Ranks = field(repr=False)  # where the true head of each triple stands, in the split's order
    tails: Ranks = field(repr=False)
    relations: Ranks | None = field(default=None, repr=False)  # where its relation stands among all relations

    def to_json(self) -> dict[str, Any]:
        """What ``capse evaluate --json`` prints."""
        ranks = ("heads", "tails", "relations")
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ranks}
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
    relations: bool | None = None,
    among: Candidates | None = None,
    progress: Progress | None = None,
    group: Group | None = None,
) -> LinkPredictionResult:
    """Rank both sides of every triple of a split; see ``rank_split``.

    ``relations`` says whether to rank the relation of each triple too, among all relations; it is done by default where
    the model has a quick way to it, and never counts towards ``both``.

    ``breakdowns`` brings metrics of groups, averages over relations and metrics adjusted for chance.
    With ``among`` the same questions are asked among those candidates too; what comes of it stands under ``restricted``
    and never among the metrics.

    The processes of a ``group`` divide the questions; each gets all of the result, which is that of one process.

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
    relations = getattr(model, "quick_relations", False) if relations is None else relations
    total = (3 if relations else 2) * len(triples)
    options: dict[str, Any] = {
        "known": known if filtered else None,
        "memory": memory,
        "exact": exact,
        "describe": partial(_describe, graph),
        "group": group,
    }
    rank_split(model, triples[:1], **options)  # whatever compiles or is kept does so before the clock starts
    started = time.perf_counter()
    heads, tails = rank_split(model, triples, progress=_after(0, total, progress), **options)
    seconds = time.perf_counter() - started

    of_head, of_tail = contributions(heads), contributions(tails)
    sides = {"both": (of_head + of_tail) / 2, "head": of_head, "tail": of_tail}
    metrics = summarize_sides(sides)
    of_relation = None
    if relations:
        if not isinstance(model, RelationScorable):
            raise SettingsError(f"a {type(model).__name__} scores no relations", "leave their ranks out")
        of_relation = rank_relations(model, triples, progress=_after(2 * len(triples), total, progress), **options)
        metrics["relation"] = summarize(of_relation)
    by_relation = break_down(sides, triples[:, RELATION], graph.relations.labels, unit="triples") if breakdowns else {}
    restricted = {} if among is None else _restricted(model, triples, known if filtered else None, among, group)
    return LinkPredictionResult(
        dataset=graph.name,
        split=split,
        triples=len(triples),
        unseen_triples=int(has_unseen_entity(training, triples).sum()),
        seconds=seconds,
        filtered=filtered,
        exact=exact,
        metrics=metrics,
        intervals={"both": _bounds(sides["both"])} if intervals else {},
        breakdowns={"relation": by_relation, **_breakdowns(training, triples, sides)} if breakdowns else {},
        warnings=[*filter(None, [remembered(training, split, graph)]), *_warnings(metrics["both"])],
        adjusted=_adjusted(heads, tails) if breakdowns else {},
        macro=macro_average(by_relation, ("both", "head", "tail")) if breakdowns else {},
        restricted=restricted,
        weighted=_weighted(graph.weights.get(split), sides),
        heads=heads,
        tails=tails,
        relations=of_relation,
    )


def _weighted(weights: Float32s | None, sides: dict[str, Float64s]) -> dict[str, Summary]:
    """The metrics of each side, every triple counting as much as it weighs."""
    if weights is None or not weights.any():
        return {}
    shares = weights.astype(np.float64)
    return {side: named(np.average(values, axis=0, weights=shares)) for side, values in sides.items()}


def _adjusted(heads: Ranks, tails: Ranks) -> dict[str, Summary]:
    return {"both": adjusted(Ranks.concatenate([heads, tails])), "head": adjusted(heads), "tail": adjusted(tails)}


def _restricted(
    model: Scorable, triples: Triples, known: TripleIndex | None, among: Candidates, group: Group | None
) -> dict[str, Any]:
    heads, tails = rank_among(model, triples, known, among, group=group)
    of_head, of_tail = contributions(heads), contributions(tails)
    sides = {"both": (of_head + of_tail) / 2, "head": of_head, "tail": of_tail}
    return {
        "among": among.named,
        "mean_candidates": float(Ranks.concatenate([heads, tails]).candidates.mean()),
        "metrics": summarize_sides(sides),
        "intervals": {"both": _bounds(sides["both"])},
        "adjusted": _adjusted(heads, tails),
    }


def _after(before: int, total: int, progress: Progress | None) -> Progress | None:
    """Tells ``progress`` of a part of the work, so much of the ``total`` being done before it."""
    return progress and (lambda done, _: progress(before + done, total))


def _describe(graph: Graph, head: int, relation: int, tail: int) -> str:
    entities, relations = graph.entities.labels, graph.relations.labels
    return f"({entities[head]}, {relations[relation]}, {entities[tail]})"


def _bounds(values: Float64s) -> Summary:
    return named(np.moveaxis(bootstrap_interval(values), 0, -1))


def _breakdowns(graph: Graph, triples: Triples, sides: dict[str, Float64s]) -> dict[str, Any]:
    relations = triples[:, RELATION]
    category = np.array([CATEGORIES.index(name) for name in relation_categories(graph)])
    answers = np.concatenate([triples[:, HEAD], triples[:, TAIL]])  # of the head queries, then of the tail queries
    queries = {"both": np.concatenate([sides["head"], sides["tail"]])}
    buckets = np.searchsorted(FREQUENCY_EDGES, entity_frequency(graph)[answers], side="right")
    return {
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
