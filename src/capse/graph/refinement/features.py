"""Which motifs of a graph are features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from capse.arrays import Bools, Float64s, Int64s
from capse.errors import DataError, SettingsError
from capse.graph.dataset import Graph
from capse.graph.refinement.settings import Refinement
from capse.kernels.motifs import keys as k
from capse.kernels.motifs.counting import MotifCounts, TooManyMotifsError, count_motifs
from capse.kernels.motifs.graph import MotifGraph, build_graph, work_of_three
from capse.kernels.motifs.scoring import Motifs, build_motifs
from capse.triples import HEAD, RELATION, TAIL, TripleIndex, Triples

FEW_RELATIONS = 32  # up to so many, every motif that there can be is kept: one that never occurs says something too
MOST_MOTIFS = 20_000_000  # different ones that are counted
MOST_WORK = 2 * 10**10  # comparisons of neighbours
SYMMETRIC = 0.5  # share of a relation's edges that are there the other way round as well


@dataclass(frozen=True)
class Features:
    """A training graph and how often every motif occurs in it."""

    triples: Triples  # (n, 3)
    entities: int
    relations: int
    most: int  # relations of a motif
    graph: MotifGraph
    counted: MotifCounts

    @classmethod
    def of(cls, triples: Triples, entities: int, relations: int, most: int) -> Features:
        """Count the motifs of training triples; refuses a graph that has too many."""
        graph = build_graph(triples, entities)
        loops = np.bincount(triples[triples[:, HEAD] == triples[:, TAIL]][:, RELATION], minlength=relations)
        dense = "the graph is too dense for motifs of three relations"
        remedy = "set refinement.relations=2"
        if most == 3 and work_of_three(graph) > MOST_WORK:
            raise SettingsError(dense, remedy)
        try:
            found = count_motifs(graph, loops.astype(np.int64), relations, relations_at_most=most, room=MOST_MOTIFS)
        except TooManyMotifsError as error:
            said = dense if most == 3 else f"the graph has more than {MOST_MOTIFS:,} different motifs"
            raise SettingsError(said, remedy if most == 3 else "refine a run on fewer relations") from error
        return cls(triples, entities, relations, most, graph, found)

    def kept(self, settings: Refinement) -> Int64s:
        """The keys of those that are features, ascending."""
        if self.relations <= FEW_RELATIONS:
            keys = k.all_keys(self.relations, self.most)
        else:
            keys = self.counted.keys[self.counted.counts >= settings.least]
        kept = settings.self_loops | (keys // (self.relations + 1) ** 3 != k.LOOP)
        return np.asarray(keys[kept])

    def motifs(self, keys: Int64s, weights: Float64s, *, legs: bool) -> Motifs:
        """What the loops need for features with these keys and weights."""
        return build_motifs(self.graph, self.counted, keys, self.relations, legs=legs, weights=weights)

    @cached_property
    def index(self) -> TripleIndex:
        """The training facts."""
        return TripleIndex(self.triples, self.entities, self.relations)

    @cached_property
    def symmetric(self) -> Bools:
        """Which relations (R,) go both ways, self-loops left out."""
        heads, relations, tails = self.triples[self.triples[:, HEAD] != self.triples[:, TAIL]].T
        both_ways = self.index.contains(tails, relations, heads)
        share = np.bincount(relations, weights=both_ways, minlength=self.relations)
        there = np.bincount(relations, minlength=self.relations)
        return np.asarray(share > SYMMETRIC * np.maximum(there, 1))


def check_relations(graph: Graph) -> None:
    """Refuse a graph with a relation that no training fact has: its features would have nothing to learn from."""
    unseen = np.flatnonzero(np.bincount(graph.train[:, RELATION], minlength=len(graph.relations)) == 0)
    if len(unseen):
        label = graph.relations.labels[unseen[0]]
        more = f" (and {len(unseen) - 1:,} more)" if len(unseen) > 1 else ""
        raise DataError(
            f"no training fact has the relation {label!r}{more}, so no motif of it was ever seen",
            "add facts of it to the training set, or leave it out, and train the run anew",
        )
