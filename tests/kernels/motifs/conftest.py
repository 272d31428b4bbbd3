"""Small graphs of every kind: self-loops, edges both ways, edges twice, nodes without any."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from capse.kernels.motifs.counting import MotifCounts, count_motifs
from capse.kernels.motifs.graph import MotifGraph, build_graph

Edge = tuple[int, int, int]


@dataclass(frozen=True)
class Case:
    """A graph, and an edge that may be in it."""

    entities: int
    relations: int
    edges: list[Edge]
    edge: Edge

    @property
    def graph(self) -> MotifGraph:
        return build_graph(np.array(self.edges, np.int64).reshape(-1, 3), self.entities)

    def counted(self, most: int = 3) -> MotifCounts:
        loops = [r for s, r, t in set(self.edges) if s == t]
        found = np.bincount(np.array(loops, np.int64), minlength=self.relations).astype(np.int64)
        return count_motifs(self.graph, found, self.relations, relations_at_most=most, room=10**6)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    entities, relations = draw(st.integers(2, 6)), draw(st.integers(1, 3))
    edge = st.tuples(
        st.integers(0, entities - 1), st.integers(0, relations - 1), st.integers(0, entities - 1)
    )  # fmt: skip
    return Case(entities, relations, draw(st.lists(edge, max_size=24)), draw(edge))
