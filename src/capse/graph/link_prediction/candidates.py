"""Which entities may be an answer: those of a list, of a type, or those that training has seen in that place.

Ranks among candidates are not ranks among all entities, and better by nature: they go by a name of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import numpy as np

from capse.arrays import Int64s
from capse.errors import DataError, SettingsError
from capse.graph.dataset import Graph
from capse.graph.readers.files import lines
from capse.triples import HEAD, RELATION, TAIL

_SALT = 0x5EED


class Candidates(ABC):
    """The entities that may answer a question."""

    named: str  # what they are, in words; part of what a restricted evaluation is called

    @abstractmethod
    def of(self, head: int, relation: int, tail: int, free: int) -> Int64s:
        """Their ids, ascending, for a question whose ``free`` side (HEAD or TAIL) is asked for."""


class Listed(Candidates):
    """The same entities for every question.

    >>> graph = Graph.from_triples([("berlin", "capital_of", "germany"), ("paris", "capital_of", "france")])
    >>> Listed.of_names(graph, ["paris", "berlin"]).of(0, 0, -1, TAIL)
    array([0, 3])
    """

    def __init__(self, ids: Iterable[int], named: str, skipped: int = 0) -> None:
        self.ids = np.unique(np.fromiter(ids, np.int64))
        self.named = named
        self.skipped = skipped  # names that the graph lacks
        if not len(self.ids):
            raise SettingsError(f"there is no candidate among {named}", "name entities of the graph")

    @classmethod
    def of_names(
        cls, graph: Graph, names: Iterable[str], named: str = "a list", *, skip_unknown: bool = False
    ) -> Listed:
        """By labels or names; unknown ones are an error, or skipped and counted."""
        every = list(dict.fromkeys(names))
        if not skip_unknown:
            return cls((graph.entities.id(name) for name in every), named)
        found = [place for place in map(graph.entities.find, every) if place is not None]
        return cls(found, named, len(every) - len(found))

    @classmethod
    def of_file(cls, graph: Graph, path: str | Path, *, skip_unknown: bool = False) -> Listed:
        """One label or name a line."""
        file = Path(path)
        names = [name for _, line in lines(file) if (name := line.rstrip("\r\n"))]
        if not names:
            raise DataError(f"{file}: no names in it", "write one label or name a line")
        return cls.of_names(graph, names, f"the list {file.name}", skip_unknown=skip_unknown)

    @classmethod
    def of_type(cls, graph: Graph, relation: str, kind: str) -> Listed:
        """Those of which some training triple says (entity, relation, kind), as in (Kenya, instance of, country)."""
        known = graph.known_in_train
        r, t = np.array([graph.relations.id(relation)]), np.array([graph.entities.id(kind)])
        ids = known.heads(r, t).entities
        if not len(ids):
            raise SettingsError(f"no training triple says (?, {relation}, {kind})", "name a type that entities have")
        return cls(ids, f"({relation}, {kind})")

    def of(self, head: int, relation: int, tail: int, free: int) -> Int64s:
        return self.ids


class Seen(Candidates):
    """Those that some training triple of the relation has in that place: its domain, or its range."""

    named = "seen in training"

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def of(self, head: int, relation: int, tail: int, free: int) -> Int64s:
        order, starts = self._by_relation
        rows = order[starts[relation] : starts[relation + 1]]
        return np.unique(self._graph.train[rows, free]).astype(np.int64)

    @cached_property
    def _by_relation(self) -> tuple[Int64s, Int64s]:
        relations = self._graph.train[:, RELATION]
        order = np.argsort(relations, kind="stable")
        return order, np.searchsorted(relations[order], np.arange(len(self._graph.relations) + 1))


class Sampled(Candidates):
    """So many entities for each question, drawn at random: a quick look that flatters, and is said to.

    The same question gets the same ones. Krichene and Rendle, On Sampled Metrics for Item Recommendation, KDD 2020.
    """

    def __init__(self, graph: Graph, count: int, seed: int = 0) -> None:
        self.entities = len(graph.entities)
        if not 1 <= count <= self.entities:
            raise SettingsError(f"{count:,} candidates are to be drawn of {self.entities:,}", "draw 1 or more of them")
        self.count, self.seed = count, seed
        self.named = f"{count:,} drawn at random"

    def of(self, head: int, relation: int, tail: int, free: int) -> Int64s:
        given = tail if free == HEAD else head
        generator = np.random.default_rng([_SALT, self.seed, given, relation, int(free == TAIL)])
        return np.sort(generator.choice(self.entities, self.count, replace=False)).astype(np.int64)
