"""Rules of the graph that say a triple, each with the training facts that it rests on.

A rule says r(x, y) where a path of one or two facts leads from x to y; see `capse.graph.rule_mining`. It speaks for an
answer with the share of its own cases in which it is right among training facts, whatever model is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from capse.graph.dataset import Graph
from capse.graph.rule_mining import Rule, Step, mine
from capse.triples import HEAD, RELATION, TAIL, TripleIndex, Triples

LEAST_CONFIDENCE = 0.1  # below, a rule says too little to be shown
_DOUBT = 5  # pairs added to those for which a rule does not hold: few examples make no sure rule


class Supported(NamedTuple):
    """A rule that says a triple."""

    rule: Rule
    facts: list[tuple[int, int, int]]  # one path that it takes here, by ids


@dataclass
class Rulebook:
    """The rules of a graph's training facts, looked for when a relation is first asked about."""

    graph: Graph

    def __post_init__(self) -> None:
        self._index = TripleIndex(self.graph.train, len(self.graph.entities), len(self.graph.relations))
        self._rules: dict[int, list[Rule]] = {}

    def supporting(self, triple: Triples, most: int) -> list[Supported]:
        """The surest rules that say a triple (3,); the triple itself is no evidence for itself."""
        found = []
        for rule in self._of(int(triple[RELATION])):
            path = next(self._paths(rule.body, triple), None)
            if path is not None:
                found.append(Supported(rule, path))
                if len(found) == most:
                    break
        return found

    def _of(self, relation: int) -> list[Rule]:
        if relation not in self._rules:
            graph = self.graph
            sizes = len(graph.entities), len(graph.relations)
            found = mine(graph.train, *sizes, least_confidence=LEAST_CONFIDENCE, only=relation)
            self._rules[relation] = sorted(found, key=lambda rule: -rule.support / (_bodies(rule) + _DOUBT))
        return self._rules[relation]

    def _paths(self, body: tuple[Step, ...], triple: Triples) -> Iterator[list[tuple[int, int, int]]]:
        """The ways in which facts lead from the triple's head to its tail, without the triple itself."""
        head, _, tail = triple.tolist()
        own = tuple(triple.tolist())
        first, second = body[0], body[1:]
        for middle in self._next(head, first):
            facts = [_fact(head, first, middle)]
            if second:
                if tail not in self._next(middle, second[0]):
                    continue
                facts.append(_fact(middle, second[0], tail))
            elif middle != tail:
                continue
            if own not in facts:
                yield facts

    def _next(self, entity: int, step: Step) -> list[int]:
        """Where a step leads from an entity."""
        relation, forwards = step
        one, by = np.array([entity]), np.array([relation])
        answers = self._index.tails(one, by) if forwards else self._index.heads(by, one)
        found: list[int] = answers.entities.tolist()
        return found


def in_words(rule: Rule, graph: Graph) -> str:
    """A rule as a sentence: 'x in z and z in y give x in y'."""
    names = ["x", "z", "y"] if len(rule.body) == 2 else ["x", "y"]
    parts = []
    for (relation, forwards), start, end in zip(rule.body, names, names[1:], strict=False):
        left, right = (start, end) if forwards else (end, start)
        parts.append(f"{left} {graph.relations.name(relation)} {right}")
    gives = "give" if len(parts) == 2 else "gives"
    return f"{' and '.join(parts)} {gives} x {graph.relations.name(rule.relation)} y"


def _bodies(rule: Rule) -> float:
    """How many pairs the body joins."""
    return rule.support / rule.confidence


def _fact(start: int, step: Step, end: int) -> tuple[int, int, int]:
    relation, forwards = step
    triple = [0, relation, 0]
    triple[HEAD], triple[TAIL] = (start, end) if forwards else (end, start)
    return triple[0], triple[1], triple[2]
