"""A run that facts come after, one after the other.

What the vector of an added entity is depends on the run and on the facts that join it, directly or by way of other
added entities, to what the run knows: not on when they came, nor on facts about others. So any process that has the
same facts has the same vectors, to the bit, and only what new facts touch is folded in again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from capse.arrays import Int64s
from capse.errors import CapseError
from capse.graph.fold_in import Background, FoldIn, fold_in
from capse.graph.link_prediction.updating import check_facts, check_grows, with_vectors
from capse.triples import HEAD, TAIL, TripleIndex

if TYPE_CHECKING:
    from capse.graph.link_prediction.predictor import LinkPredictor

Fact = tuple[str, str, str]  # head, relation and tail by label


class Growth:
    """The run as it was trained, and the vectors of what was added to it last.

    >>> import capse
    >>> run = capse.fit([("a", "r", "b"), ("c", "r", "b")], capse.DistMult(dim=2), training=capse.Training(epochs=1))
    >>> growth = Growth(run)
    >>> "d" in growth.with_facts([("d", "r", "b")]).graph.entities, "d" in run.graph.entities
    (True, False)
    """

    def __init__(self, base: LinkPredictor, settings: FoldIn | None = None) -> None:
        check_grows(base.model)
        self.base, self.settings = base, settings or FoldIn()
        self._vectors: dict[bytes, torch.Tensor] = {}  # of added entities that facts join, by these facts

    def with_facts(self, facts: Sequence[Fact]) -> LinkPredictor:
        """The run with these facts; those that it knows, or whose relation it does not, are left out."""
        fitting = [fact for fact in dict.fromkeys(facts) if self._fits(fact)]
        if not fitting:
            return self.base
        new = check_facts(self.base.graph, fitting)
        entities = len(self.base.graph.entities)
        vectors = self.base.model.entities.new_empty(len(new.labels), self.base.model.entities.shape[1])
        kept = {}
        for group in _groups(new.triples, entities):
            key = group.facts.tobytes()
            kept[key] = self._vectors[key] if key in self._vectors else self._folded(group.facts)
            vectors[torch.from_numpy(group.entities)] = kept[key]
        self._vectors = kept
        return with_vectors(self.base, new, vectors)

    def knows(self, fact: Fact) -> bool:
        """Whether the run, as it was trained, has this fact."""
        head, relation, tail = fact
        entities, relations = self.base.graph.entities, self.base.graph.relations
        ids = entities.find(head), relations.find(relation), entities.find(tail)
        return None not in ids and bool(self.base.graph.known.contains(*np.array([ids]).T)[0])

    def _fits(self, fact: Fact) -> bool:
        try:
            return self.base.graph.relations.find(fact[1]) is not None and not self.knows(fact)
        except CapseError:  # a label that is the name of several entities in this run
            return False

    def _folded(self, facts: Int64s) -> torch.Tensor:
        return fold_in(self.base.model, facts, self._train, self.settings, background=self._background)

    @cached_property
    def _background(self) -> Background:
        return Background.of(self.base.model, self._train, self.settings)

    @cached_property
    def _train(self) -> TripleIndex:
        graph = self.base.graph
        return TripleIndex(graph.train, len(graph.entities), len(graph.relations))


class _Group(NamedTuple):
    """Added entities that facts join to each other."""

    entities: Int64s  # (n,) their places among all that were added, in the order in which facts speak of them
    facts: Int64s  # (m, 3) about them, with ids of the model and, in the order of ``entities``, from its number on


def _groups(triples: Int64s, before: int) -> Iterator[_Group]:
    """The groups of added entities, ids from ``before`` on, that facts (n, 3) join to each other."""
    ends = triples[:, [HEAD, TAIL]]
    count = int(ends.max()) + 1 - before
    if count <= 0:
        return
    both = ends[(ends >= before).all(axis=1)] - before
    joined = coo_matrix((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(count, count))
    _, group_of = connected_components(joined, directed=False)
    about = ends.max(axis=1) >= before
    groups = group_of[ends[about].max(axis=1) - before]
    for group in np.unique(groups):
        facts = triples[about][groups == group].copy()
        named = facts[:, [HEAD, TAIL]].ravel()
        entities = np.array(list(dict.fromkeys(named[named >= before].tolist())), np.int64)
        place = np.arange(before + count)
        place[entities] = before + np.arange(len(entities))
        facts[:, [HEAD, TAIL]] = place[facts[:, [HEAD, TAIL]]]
        yield _Group(entities - before, facts)
