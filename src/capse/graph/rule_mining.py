"""Rules that hold among training facts: r(y, x) or s(x, y) or s(y, x) or a path of two facts gives r(x, y).

A rule's *body* is a path of one or two steps, each a relation taken forwards or backwards. Its *confidence* is the
share of the pairs joined by the body that the relation joins too, its *coverage* the share of the relation's pairs that
the body joins. Rules of one step are counted exactly. Of two steps, the bodies that are worth counting are found on a
sample of each relation's facts, and are then counted exactly.

Dettmers et al., Convolutional 2D Knowledge Graph Embeddings, AAAI 2018 (inverse rules as a baseline); Meilicke et al.,
Anytime Bottom-Up Rule Learning for Knowledge Graph Completion, IJCAI 2019.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import sparse

from capse.arrays import Bools, Int64s
from capse.triples import HEAD, RELATION, TAIL, Triples

Kind = Literal["symmetric", "inverse", "duplicate", "composed"]
Step = tuple[int, bool]  # a relation, and whether it is taken forwards, from its head to its tail

_SAMPLE = 100  # facts of a relation, to find bodies of two steps with
_BODIES = 10  # bodies of two steps that are counted exactly, of each relation
_MOST_PATHS = 20_000_000  # of a body that is counted


@dataclass(frozen=True)
class Rule:
    """If the steps of ``body`` lead from x to y, then relation(x, y)."""

    relation: int
    body: tuple[Step, ...]
    support: int  # pairs that both join
    confidence: float
    coverage: float

    @property
    def kind(self) -> Kind:
        """What such a rule is called."""
        if len(self.body) == 2:
            return "composed"
        ((relation, forwards),) = self.body
        if forwards:
            return "duplicate"
        return "symmetric" if relation == self.relation else "inverse"


def mine(
    triples: Triples,
    entities: int,
    relations: int,
    *,
    least_confidence: float,
    least_support: int = 2,
    composed: bool = True,
    seed: int = 0,
    only: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Rule]:
    """The rules that distinct triples (n, 3) obey well enough, by relation, the most confident first.

    ``only`` is a relation if no others are asked for.

    >>> facts = np.array([[0, 0, 1], [1, 0, 0], [2, 0, 3], [3, 0, 2], [4, 0, 5]])
    >>> [(rule.kind, rule.confidence) for rule in mine(facts, 6, 1, least_confidence=0.5)]
    [('symmetric', 0.8)]
    """
    rules = [*_of_one_step(triples, entities, relations)]
    if composed:
        asked = range(relations) if only is None else [only]
        rules += _of_two_steps(triples, entities, relations, asked, seed, progress)
    kept = [rule for rule in rules if rule.support >= least_support and rule.confidence >= least_confidence]
    kept = [rule for rule in kept if only in (None, rule.relation)]
    return sorted(kept, key=lambda rule: (rule.relation, -rule.confidence, -rule.support, rule.body))


def following(rules: Sequence[Rule], facts: Triples, asked: Triples, entities: int, relations: int) -> Bools:
    """For each rule and each triple asked for, (m, n), whether the facts and the rule say it."""
    steps = _Steps(facts, entities, relations)
    found = np.zeros((len(rules), len(asked)), bool)
    for row, rule in zip(found, rules, strict=True):
        here = np.flatnonzero(asked[:, RELATION] == rule.relation)
        if not len(here):
            continue
        heads, _, tails = asked[here].T
        body = [relation if forwards else relation + relations for relation, forwards in rule.body]
        joined = steps.matrix(body[0])[heads]
        for step in body[1:]:
            joined = joined @ steps.matrix(step)
        row[here] = np.asarray(joined[np.arange(len(here)), tails]).ravel() > 0
    return found


def _of_one_step(triples: Triples, entities: int, relations: int) -> Iterator[Rule]:
    """Every rule of one step that holds for a pair."""
    heads, relation_ids, tails = triples.astype(np.int64).T
    sizes = np.bincount(relation_ids, minlength=relations)
    for forwards in (False, True):
        there = heads * entities + tails
        here = there if forwards else tails * entities + heads
        body, found = _equal(here, there)  # body triple i joins the pair that triple found[i] is about
        couples, counts = np.unique(relation_ids[body] * relations + relation_ids[found], return_counts=True)
        for couple, count in zip(couples.tolist(), counts.tolist(), strict=True):
            s, r = divmod(couple, relations)
            if not (forwards and s == r):
                yield Rule(r, ((s, forwards),), count, count / int(sizes[s]), count / int(sizes[r]))


def _equal(first: Int64s, second: Int64s) -> tuple[Int64s, Int64s]:
    """All places (i, j) with first[i] == second[j]."""
    order = np.argsort(second, kind="stable")
    starts = np.searchsorted(second[order], first, "left")
    lengths = np.searchsorted(second[order], first, "right") - starts
    left = np.repeat(np.arange(len(first)), lengths)
    offsets = np.arange(len(left)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return left, order[starts[left] + offsets]


def _of_two_steps(
    triples: Triples,
    entities: int,
    relations: int,
    asked: Sequence[int],
    seed: int,
    progress: Callable[[int, int], None] | None,
) -> Iterator[Rule]:
    """Rules of two steps whose bodies join enough of a sample of their relation's facts."""
    steps = _Steps(triples, entities, relations)
    generator = np.random.default_rng(seed)
    for done, relation in enumerate(asked, start=1):
        facts = triples[triples[:, RELATION] == relation]
        if len(facts) > 1:
            sample = facts[generator.permutation(len(facts))[:_SAMPLE]]
            for body in steps.bodies(sample, len(facts)):
                yield from steps.counted(relation, body, facts)
        if progress:
            progress(done, len(asked))


class _Steps:
    """The facts as steps: relation r forwards is step r, and backwards step R + r."""

    def __init__(self, triples: Triples, entities: int, relations: int) -> None:
        self.entities, self.relations = entities, relations
        heads, relation_ids, tails = triples.astype(np.int64).T
        start = np.concatenate([heads, tails])
        step = np.concatenate([relation_ids, relation_ids + relations])
        end = np.concatenate([tails, heads])
        order = np.lexsort((end, start))
        self.start, self.step, self.end = start[order], step[order], end[order]
        self.offsets = np.searchsorted(self.start, np.arange(entities + 1))
        self._by_step = np.argsort(self.step, kind="stable")
        self._step_offsets = np.searchsorted(self.step[self._by_step], np.arange(2 * relations + 1))
        self._matrices: dict[int, sparse.csr_matrix] = {}

    def bodies(self, sample: Triples, facts: int) -> list[tuple[int, int]]:
        """The bodies that join most of the sample, for the paths that they make."""
        size = 2 * self.relations
        codes = [self._joining(head, relation, tail) for head, relation, tail in sample.tolist()]
        found, counts = np.unique(np.concatenate(codes), return_counts=True)
        often = counts >= max(2, 0.1 * len(sample))
        found, counts = found[often], counts[often]
        first, second = np.divmod(found, size)
        paths = np.array([self._paths(a, b) for a, b in zip(first.tolist(), second.tolist(), strict=True)])
        if not len(paths):
            return []
        worth = (counts / len(sample)) * facts / np.maximum(paths, 1)  # no more than the confidence
        order = np.argsort(-worth, kind="stable")
        return [(int(first[i]), int(second[i])) for i in order[:_BODIES] if paths[i] <= _MOST_PATHS]

    def counted(self, relation: int, body: tuple[int, int], facts: Triples) -> Iterator[Rule]:
        """The rule with its exact confidence and coverage."""
        joined = (self.matrix(body[0]) @ self.matrix(body[1])).tocsr()
        pairs = joined.nnz
        both = int((joined[facts[:, HEAD], facts[:, TAIL]] > 0).sum())
        if both:
            first, second = ((step % self.relations, step < self.relations) for step in body)
            yield Rule(relation, (first, second), both, both / pairs, both / len(facts))

    def _joining(self, head: int, relation: int, tail: int) -> Int64s:
        """The bodies, as numbers, of the paths of two steps from head to tail by way of a third entity."""
        out = slice(*self.offsets[[head, head + 1]])
        back = slice(*self.offsets[[tail, tail + 1]])
        left, right = _equal(self.end[out], self.end[back])
        middles = self.end[out][left]
        left, right = (places[(middles != head) & (middles != tail)] for places in (left, right))
        second = self._reversed(self.step[back][right])
        codes = self.step[out][left] * 2 * self.relations + second
        return np.unique(codes)

    def _reversed(self, steps: Int64s) -> Int64s:
        return np.where(steps < self.relations, steps + self.relations, steps - self.relations)

    def _paths(self, first: int, second: int) -> int:
        """How many paths of two steps there are; no fewer than the pairs that they join."""
        arriving = np.bincount(self.matrix(first).indices, minlength=self.entities)
        leaving = np.diff(self.matrix(second).indptr)
        return int(arriving @ leaving)

    def matrix(self, step: int) -> sparse.csr_matrix:
        """1 where a step leads from the row's entity to the column's."""
        if step not in self._matrices:
            here = self._by_step[slice(*self._step_offsets[[step, step + 1]])]
            ones = np.ones(len(here), np.int32)
            shape = (self.entities, self.entities)
            self._matrices[step] = sparse.csr_matrix((ones, (self.start[here], self.end[here])), shape=shape)
        return self._matrices[step]
