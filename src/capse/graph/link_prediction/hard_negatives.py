"""False triples that are hard to tell from true ones: another answer of the same relation, on the same side.

Of a true triple the head or the tail, by chance, is replaced by an entity that some training triple of the relation has
there (its domain or range), and that makes no known triple. Where there is none, the other side is tried; a triple that
neither side of can be replaced is left out. Whether such a triple is really false nobody knows: it is not known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from capse.arrays import Bools
from capse.graph.dataset import Graph
from capse.triples import HEAD, RELATION, TAIL, TripleIndex, Triples


class HardNegatives(NamedTuple):
    """Of each triple one that is false as far as is known."""

    triples: Triples  # (n, 3); where none was found, the triple itself
    found: Bools  # (n,)


def hard_negatives(graph: Graph, triples: Triples, known: TripleIndex, seed: int = 0) -> HardNegatives:
    """A hard negative of each triple (n, 3), which ``known`` does not hold.

    >>> graph = Graph.from_triples([("nl", "in", "europe"), ("be", "in", "europe"), ("jp", "in", "asia")])
    >>> false, found = hard_negatives(graph, graph.train, graph.known)
    >>> [graph.entities.labels[i] for i in (*graph.train[0, [0, 2]], *false[0, [0, 2]])], bool(found.all())
    (['be', 'europe', 'be', 'asia'], True)
    """
    generator = np.random.default_rng(seed)
    false = triples.copy()
    found = np.zeros(len(triples), bool)
    head_first = generator.random(len(triples)) < 0.5
    for attempt in (0, 1):
        for side in (HEAD, TAIL):
            turn = head_first if (side == HEAD) == (attempt == 0) else ~head_first
            for relation in np.unique(triples[:, RELATION]):
                rows = np.flatnonzero((triples[:, RELATION] == relation) & turn & ~found)
                if len(rows):
                    answers = np.unique(graph.train[graph.train[:, RELATION] == relation, side])
                    _replace(false, found, rows, side, answers, known, generator)
    return HardNegatives(false, found)


def _replace(
    false: Triples,
    found: Bools,
    rows: Triples,
    side: int,
    answers: Triples,
    known: TripleIndex,
    generator: np.random.Generator,
) -> None:
    """Give each row an answer that makes no known triple, if there is one: the first of all in an order of its own."""
    heads, relations, tails = false[rows].T
    taken = known.heads(relations, tails) if side == HEAD else known.tails(heads, relations)
    for place, row in enumerate(rows):
        free = np.setdiff1d(answers, np.append(taken[place], false[row, side]), assume_unique=False)
        if len(free):
            false[row, side] = free[generator.integers(len(free))]
            found[row] = True
