"""What a graph is like: sizes, relation categories, and what its test set gives away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capse.graph.dataset import SPLITS, Graph
from capse.graph.encoding import distinct
from capse.graph.patterns import Patterns, relation_patterns
from capse.graph.values import spread
from capse.triples import HEAD, RELATION, TAIL, TripleIndex, Triples

CATEGORIES = ("1-1", "1-M", "M-1", "M-M")
_MANY = 1.5  # Bordes et al. 2013: a side with at least this many on average is 'many'
_NEAR = 0.8  # a pair of relations of which this share, on both sides, is mirrored is nearly inverse
_CHUNK = 1 << 20  # triples that are looked up at a time


@dataclass(frozen=True)
class Statistics:
    """What ``capse data info`` shows; counts of triples unless said otherwise."""

    name: str
    entities: int
    relations: int
    triples: dict[str, int]  # by split
    category_relations: dict[str, int]  # relations in each category
    category_test_share: dict[str, float]  # fraction of the test triples in each category
    repeated: dict[str, int]  # lines that repeated an earlier one of their split, by split
    skipped: int  # RDF statements that are no triples between two IRIs
    shared: dict[str, int]  # triples in two splits at once
    unseen: dict[str, int]  # triples with an entity that no training triple has, by split
    unseen_relation: dict[str, int]  # triples with a relation that no training triple has, by split
    test_reversed_in_train: int  # test triples whose tail and head some training triple joins the other way round
    mirrored_relations: list[tuple[str, str]]  # (r, s): s nearly the inverse of r in train; (r, r): r nearly symmetric
    weights: dict[str, dict[str, float]]  # least, most and mean of a split's weights, where its triples have any
    values: dict[str, dict[str, float]]  # count, least and most of each property of entities
    patterns: Patterns  # what relations say about each other, and how much of the test set that gives away


def describe(graph: Graph) -> Statistics:
    """All statistics of a graph."""
    categories = np.array(relation_categories(graph))
    of_test = categories[graph.test[:, RELATION]]
    held_out = {split: graph.split(split) for split in SPLITS if split != "train"}
    seen_relations = np.bincount(graph.train[:, RELATION], minlength=len(graph.relations)) > 0
    return Statistics(
        name=graph.name,
        entities=len(graph.entities),
        relations=len(graph.relations),
        triples={split: len(graph.split(split)) for split in SPLITS},
        category_relations={name: int((categories == name).sum()) for name in CATEGORIES},
        category_test_share={name: float((of_test == name).mean()) if len(of_test) else 0.0 for name in CATEGORIES},
        repeated=dict(graph.repeated),
        skipped=graph.skipped,
        shared={
            f"{first}-{second}": _shared(graph, first, second)
            for first, second in (("train", "valid"), ("train", "test"), ("valid", "test"))
        },
        unseen={split: int(has_unseen_entity(graph, triples).sum()) for split, triples in held_out.items()},
        unseen_relation={split: int((~seen_relations[t[:, RELATION]]).sum()) for split, t in held_out.items()},
        test_reversed_in_train=_reversed_in_train(graph),
        mirrored_relations=mirrored_relations(graph),
        weights=weight_spread(graph),
        values=spread(graph.values),
        patterns=relation_patterns(graph),
    )


def weight_spread(graph: Graph) -> dict[str, dict[str, float]]:
    """The least, the largest and the mean weight of each split that has weights."""
    return {
        split: {"least": float(w.min()), "most": float(w.max()), "mean": float(w.mean())}
        for split, w in graph.weights.items()
        if len(w)
    }


def relation_categories(graph: Graph) -> list[str]:
    """The category of each relation id: '1-1', '1-M', 'M-1' or 'M-M'.

    The right side is M if a head of the relation has 1.5 tails or more on average, the left side if a tail has so many
    heads; the triples of all three splits are counted together, as the paper's figures need.

    >>> graph = Graph.from_triples([("be", "in", "europe"), ("nl", "in", "europe"), ("nl", "capital", "amsterdam")])
    >>> dict(zip(graph.relations.labels, relation_categories(graph), strict=True))
    {'capital': '1-1', 'in': 'M-1'}
    """
    relations = len(graph.relations)
    heads, relation_ids, tails = distinct(graph.split("all"), len(graph.entities), relations).astype(np.int64).T
    triples = np.bincount(relation_ids, minlength=relations)
    many_tails = triples >= _MANY * _distinct_per_relation(relation_ids, heads, graph)
    many_heads = triples >= _MANY * _distinct_per_relation(relation_ids, tails, graph)
    return [CATEGORIES[2 * heads_too + tails_too] for heads_too, tails_too in zip(many_heads, many_tails, strict=True)]


def entity_frequency(graph: Graph) -> npt.NDArray[np.int64]:
    """How often each entity id is a head or a tail in train."""
    entities = len(graph.entities)
    counts = np.bincount(graph.train[:, HEAD], minlength=entities)
    return counts + np.bincount(graph.train[:, TAIL], minlength=entities)


def has_unseen_entity(graph: Graph, triples: Triples) -> npt.NDArray[np.bool_]:
    """Which triples contain an entity that no training triple has."""
    unseen = entity_frequency(graph) == 0
    return np.asarray(unseen[triples[:, HEAD]] | unseen[triples[:, TAIL]])


def remembered(graph: Graph, split: str, of: Graph | None = None) -> str | None:
    """What to say of a split that holds triples which ``graph`` trains on; ``of`` is whose split, if not its own.

    >>> facts = [("a", "over", "b"), ("b", "over", "c")]
    >>> remembered(Graph.from_triples(facts, test=facts[:1]), "test")
    '1 of the 1 test triples is a training triple too: such ranks say what a model remembers, not infers'
    """
    triples = (of or graph).split(split)
    count = 0 if split in ("train", "all") else _count_among(triples, graph)
    if not count:
        return None
    are = "is a training triple too" if count == 1 else "are training triples too"
    return f"{count:,} of the {len(triples):,} {split} triples {are}: such ranks say what a model remembers, not infers"


def _count_among(triples: Triples, graph: Graph) -> int:
    """How many of these triples, each there once, a graph trains on. They are the index, being the fewer."""
    if not len(triples):
        return 0
    index = TripleIndex(triples, len(graph.entities), len(graph.relations))
    parts = (graph.train[start : start + _CHUNK] for start in range(0, len(graph.train), _CHUNK))
    return sum(int(index.contains(*part.T).sum()) for part in parts)


def mirrored_relations(graph: Graph) -> list[tuple[str, str]]:
    """Pairs of relations that nearly are each other's inverse in train: most of each has its mirror image in the other.

    >>> graph = Graph.from_triples([("a", "over", "b"), ("c", "over", "b"), ("b", "under", "a"), ("b", "under", "c")])
    >>> mirrored_relations(graph)
    [('over', 'under')]
    """
    entities, relations = len(graph.entities), len(graph.relations)
    heads, relation_ids, tails = graph.train.astype(np.int64).T
    pairs = heads * entities + tails
    order = np.argsort(pairs)
    starts = np.searchsorted(pairs[order], tails * entities + heads, "left")
    ends = np.searchsorted(pairs[order], tails * entities + heads, "right")
    # Every (triple, mirror image) couple: triple i has its mirror images at order[starts[i]:ends[i]].
    triple = np.repeat(np.arange(len(pairs)), ends - starts)
    first_couple = np.cumsum(ends - starts) - (ends - starts)
    mirror = order[np.arange(len(triple)) - first_couple[triple] + starts[triple]]
    couples, counts = np.unique(relation_ids[triple] * relations + relation_ids[mirror], return_counts=True)
    left, right = np.divmod(couples, relations)
    sizes = np.bincount(relation_ids, minlength=relations)
    near = (left <= right) & (counts >= _NEAR * sizes[left]) & (counts >= _NEAR * sizes[right])
    labels = graph.relations.labels
    return [(labels[r], labels[s]) for r, s in zip(left[near], right[near], strict=True)]


def _distinct_per_relation(
    relation_ids: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], graph: Graph
) -> npt.NDArray[np.int64]:
    entities, relations = len(graph.entities), len(graph.relations)
    pairs = np.sort(relation_ids * entities + ends)
    return np.bincount(pairs[np.diff(pairs, prepend=-1) > 0] // entities, minlength=relations)


def _shared(graph: Graph, first: str, second: str) -> int:
    both = np.concatenate([graph.split(first), graph.split(second)])
    return len(both) - len(distinct(both, len(graph.entities), len(graph.relations)))


def _reversed_in_train(graph: Graph) -> int:
    entities = len(graph.entities)
    heads, _, tails = graph.train.astype(np.int64).T
    joined = np.sort(heads * entities + tails)
    test_heads, _, test_tails = graph.test.astype(np.int64).T
    wanted = test_tails * entities + test_heads
    return int((np.searchsorted(joined, wanted, "left") < np.searchsorted(joined, wanted, "right")).sum())
