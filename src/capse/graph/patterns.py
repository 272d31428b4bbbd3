"""Patterns of relations: symmetric, inverse, near-duplicate and composed ones, and what they give away of a test set.

FB15k and WN18 were easy because most of their test triples are training triples the other way round, which WN18RR
and FB15k-237 were made to repair (Toutanova and Chen 2015, Dettmers et al. 2018). Look at a graph of your own too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capse.graph.dataset import Graph
from capse.graph.rule_mining import Kind, Rule, following, mine

NEAR = 0.8  # of a pattern of one step, the least confidence and coverage; of a composed one, the least confidence
COMPOSED_COVERAGE = 0.3  # of a relation's pairs, the share that a composed pattern has to join
LEAST_SUPPORT = 5
WORTH_A_WARNING = 0.01  # of a test set


@dataclass(frozen=True)
class RelationPattern:
    """What facts of one relation, or of two after each other, say about another."""

    kind: Kind
    relation: str
    body: list[str]  # the relations that say it; one that is taken backwards ends in ⁻¹
    confidence: float  # of the pairs that the body joins, the share that the relation joins too
    coverage: float  # of the relation's pairs, the share that the body joins
    test: int  # test triples that it says


@dataclass(frozen=True)
class Patterns:
    """What patterns there are in train, and how much of the test set follows from train by them."""

    found: list[RelationPattern]
    test_by_one_step: int  # test triples that follow by a symmetric, inverse or duplicate relation
    test_by_any: int  # or by a composed one
    test: int  # all test triples
    meaning: str  # the same in words


def relation_patterns(graph: Graph) -> Patterns:
    """The patterns that nearly hold in train.

    >>> graph = Graph.from_triples(
    ...     [(f"a{i}", "over", f"b{i}") for i in range(9)] + [(f"b{i}", "under", f"a{i}") for i in range(8)],
    ...     test=[("b8", "under", "a8")])
    >>> patterns = relation_patterns(graph)
    >>> [(pattern.kind, pattern.relation, pattern.body, pattern.test) for pattern in patterns.found]
    [('inverse', 'over', ['under⁻¹'], 0), ('inverse', 'under', ['over⁻¹'], 1)]
    """
    entities, relations = len(graph.entities), len(graph.relations)
    mined = mine(graph.train, entities, relations, least_confidence=NEAR, least_support=LEAST_SUPPORT)
    rules = _worth_naming(mined)
    said = following(rules, graph.train, graph.test, entities, relations)
    single = np.array([rule.kind != "composed" for rule in rules], bool)
    by_one_step, by_any = int(said[single].any(axis=0).sum()), int(said.any(axis=0).sum())
    named = [_named(graph, rule, int(count)) for rule, count in zip(rules, said.sum(axis=1), strict=True)]
    return Patterns(named, by_one_step, by_any, len(graph.test), _meaning(by_one_step, by_any, len(graph.test)))


def _worth_naming(mined: list[Rule]) -> list[Rule]:
    """Patterns of one step that hold both ways; of each relation the best composed one, where no other says as much."""
    one_step = [rule for rule in mined if rule.kind != "composed" and rule.coverage >= NEAR]
    explained = {rule.relation for rule in one_step}
    composed: dict[int, Rule] = {}
    for rule in mined:
        if rule.kind == "composed" and rule.coverage >= COMPOSED_COVERAGE and rule.relation not in explained:
            best = composed.setdefault(rule.relation, rule)
            if rule.confidence * rule.coverage > best.confidence * best.coverage:
                composed[rule.relation] = rule
    return [*one_step, *composed.values()]


def _named(graph: Graph, rule: Rule, test: int) -> RelationPattern:
    labels = graph.relations.labels
    body = [labels[relation] + ("" if forwards else "⁻¹") for relation, forwards in rule.body]
    return RelationPattern(rule.kind, labels[rule.relation], body, rule.confidence, rule.coverage, test)


def _meaning(by_one_step: int, by_any: int, test: int) -> str:
    if not test:
        return "There is no test set to be given away."
    if by_any < WORTH_A_WARNING * test:
        return (
            f"Of {test:,} test triples {by_any:,} follow from training triples by these patterns: a good score on them "
            "has to be earned otherwise."
        )
    composed = f", and {by_any - by_one_step:,} more by two after each other" if by_any > by_one_step else ""
    return (
        f"Of {test:,} test triples {by_one_step:,} ({by_one_step / test:.1%}) follow from one training triple by these "
        f"patterns{composed}: whoever knows the patterns has them right, and a high score says little beyond that. "
        "Hold it against the rules alone: capse train --model rules."
    )
