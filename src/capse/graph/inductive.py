"""Inductive splits: a graph to train on, and another one, without a common entity, to be asked about."""

from __future__ import annotations

import numpy as np

from capse.arrays import Bools
from capse.errors import SettingsError
from capse.graph.dataset import Graph
from capse.graph.splits import split_graph
from capse.triples import HEAD, RELATION, TAIL, TripleIndex, Triples

_MOST = 10  # neighbours by which the second graph goes on from an entity, so that no hub brings in all that it knows


def inductive_split(graph: Graph, share: float = 0.2, test: float = 0.1, seed: int = 0) -> tuple[Graph, Graph]:
    """Two graphs of a graph's facts, the second of about a ``share`` of its entities, which the first has nothing of.

    The second grows around entities drawn by chance, as those of GraIL do (Teru et al., ICML 2020); it has relations
    of the first alone, and holds out a share ``test`` of its own facts. Facts between the two belong to neither.

    >>> from capse.graph.dataset import load_graph
    >>> seen, other = inductive_split(load_graph("countries"))
    >>> set(seen.entities.labels) & set(other.entities.labels)
    set()
    """
    if not 0 < share < 1:
        raise SettingsError(f"share is {share}", "give the second graph a share between 0 and 1")
    inside = _region(graph, round(share * len(graph.entities)), seed)
    triples = graph.split("all")
    ends = inside[triples[:, [HEAD, TAIL]]]
    first = triples[~ends.any(axis=1)]
    second = triples[ends.all(axis=1)]
    second = second[np.isin(second[:, RELATION], first[:, RELATION])]
    if not len(first) or not len(second):
        raise SettingsError("one of the two graphs would have no fact", "choose another share or seed")

    def named(part: str, rows: Triples) -> Graph:
        entities, relations = graph.entities.labels, graph.relations.labels
        labels = [(entities[h], relations[r], entities[t]) for h, r, t in rows.tolist()]
        return Graph.from_triples(labels, name=f"{graph.name}-{part}")

    return named("seen", first), split_graph(named("unseen", second), 0, test, seed)


def _region(graph: Graph, wanted: int, seed: int) -> Bools:
    """About so many entities (E,), each with some of its neighbours."""
    rng = np.random.default_rng(seed)
    facts = TripleIndex(graph.split("all"), len(graph.entities), len(graph.relations))
    inside = np.zeros(len(graph.entities), bool)
    roots = iter(rng.permutation(len(graph.entities)).tolist())
    waiting: list[int] = []
    count = 0
    while count < wanted:
        entity = waiting.pop(0) if waiting else next(roots, None)
        if entity is None:  # all that have facts are inside
            break
        ends = facts.around(entity)[:, [HEAD, TAIL]].ravel()
        near = rng.permutation(np.unique(ends[~inside[ends]]))[:_MOST]
        inside[near] = True
        count += len(near)
        waiting += near.tolist()
    return inside
