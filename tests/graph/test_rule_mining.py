"""Rules against their definition, by sets of pairs; and the patterns of planted graphs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capse.graph.dataset import Graph
from capse.graph.patterns import relation_patterns
from capse.graph.rule_mining import following, mine

ENTITIES, RELATIONS = 6, 3
TRIPLES = st.sets(
    st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1)),
    min_size=1,
    max_size=50,
)


def pairs_of(facts, body):
    """The pairs that the steps of a body lead between, by definition."""
    joined = {(x, x) for x in range(ENTITIES)}
    for relation, forwards in body:
        step = {(h, t) if forwards else (t, h) for h, r, t in facts if r == relation}
        joined = {(x, z) for x, y in joined for y2, z in step if y == y2}
    return joined


@given(TRIPLES)
def test_rules_of_one_step_are_all_there_with_their_shares(facts):
    array = np.array(sorted(facts))
    mined = {
        (rule.relation, rule.body): rule
        for rule in mine(array, ENTITIES, RELATIONS, least_confidence=0, least_support=1, composed=False)
    }
    expected = set()
    for r, s, forwards in itertools.product(range(RELATIONS), range(RELATIONS), (True, False)):
        body, head = pairs_of(facts, [(s, forwards)]), pairs_of(facts, [(r, True)])
        if body & head and not (r == s and forwards):
            expected.add((r, ((s, forwards),)))
            rule = mined[r, ((s, forwards),)]
            assert rule.support == len(body & head)
            assert rule.confidence == pytest.approx(len(body & head) / len(body))
            assert rule.coverage == pytest.approx(len(body & head) / len(head))
    assert set(mined) == expected


@given(TRIPLES)
def test_what_is_said_of_a_rule_of_two_steps_is_true(facts):
    for rule in mine(np.array(sorted(facts)), ENTITIES, RELATIONS, least_confidence=0):
        if len(rule.body) == 2:
            body, head = pairs_of(facts, rule.body), pairs_of(facts, [(rule.relation, True)])
            assert (rule.kind, rule.support) == ("composed", len(body & head))
            assert rule.confidence == pytest.approx(len(body & head) / len(body))
            assert rule.coverage == pytest.approx(len(body & head) / len(head))


@given(TRIPLES, TRIPLES)
def test_what_follows_is_what_the_bodies_join(facts, asked):
    rules = mine(np.array(sorted(facts)), ENTITIES, RELATIONS, least_confidence=0.2, least_support=1)
    triples = np.array(sorted(asked))
    found = following(rules, np.array(sorted(facts)), triples, ENTITIES, RELATIONS)
    for rule, row in zip(rules, found, strict=True):
        joined = pairs_of(facts, rule.body)
        assert row.tolist() == [r == rule.relation and (h, t) in joined for h, r, t in triples.tolist()]


def planted():
    """A symmetric, a pair of inverse, a pair of near-duplicate and a composed relation, and one that says nothing."""
    rng = np.random.default_rng(0)
    facts = [(f"c{i}", "in", f"r{i % 6}") for i in range(60)]
    facts += [(f"r{i}", "part of", f"w{i % 2}") for i in range(6)]
    facts += [(f"c{i}", "lies in", f"w{i % 6 % 2}") for i in range(54)]
    facts += [(f"c{i}", "near", f"c{i ^ 1}") for i in range(57)]
    facts += [(f"c{i}", "owns", f"d{i}") for i in range(60)] + [(f"d{i}", "owned by", f"c{i}") for i in range(52)]
    facts += [(f"c{i}", "likes", f"d{i * 7 % 60}") for i in range(60)]
    facts += [(f"c{i}", "loves", f"d{i * 7 % 60}") for i in range(54)]
    facts += [(f"c{i}", "knows", f"c{j}") for i, j in rng.integers(0, 60, (60, 2))]
    test = [("c59", "lies in", "w1"), ("d59", "owned by", "c59"), ("c57", "near", "c56"), ("c0", "knows", "c59")]
    return Graph.from_triples([fact for fact in facts if fact not in test], test=test)


def test_patterns_of_a_planted_graph():
    patterns = relation_patterns(planted())
    found = {(pattern.kind, pattern.relation, tuple(pattern.body)): pattern for pattern in patterns.found}
    assert set(found) == {
        ("symmetric", "near", ("near⁻¹",)),
        ("inverse", "owned by", ("owns⁻¹",)),
        ("inverse", "owns", ("owned by⁻¹",)),
        ("duplicate", "likes", ("loves",)),
        ("duplicate", "loves", ("likes",)),
        ("composed", "lies in", ("in", "part of")),
        ("composed", "part of", ("in⁻¹", "lies in")),
    }
    assert found["composed", "lies in", ("in", "part of")].confidence == 0.9
    assert (patterns.test_by_one_step, patterns.test_by_any, patterns.test) == (2, 3, 4)
    assert "Of 4 test triples 2 (50.0%) follow from one training triple" in patterns.meaning
    assert "and 1 more by two after each other" in patterns.meaning


def test_a_test_set_that_nothing_gives_away():
    graph = Graph.from_triples([(f"a{i}", "r", f"b{i}") for i in range(9)], test=[("a1", "r", "b2")])
    assert "a good score on them has to be earned otherwise" in relation_patterns(graph).meaning
    assert relation_patterns(Graph.from_triples([("a", "r", "b")])).meaning.startswith("There is no test set")
