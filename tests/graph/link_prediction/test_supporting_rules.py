"""Rules that support an answer: against their definition, by brute force over small graphs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from capse import DistMult
from capse.graph.dataset import Graph
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.link_prediction.supporting_rules import LEAST_CONFIDENCE, Rulebook
from capse.graph.rule_mining import mine
from capse.models import build_model

ENTITIES, RELATIONS = 6, 3
TRIPLES = st.sets(
    st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1)),
    min_size=4,
    max_size=40,
)


def graph_of(facts):
    labels = [f"e{i}" for i in range(ENTITIES)], [f"r{i}" for i in range(RELATIONS)]
    return Graph.from_triples(np.array(sorted(facts)), entities=labels[0], relations=labels[1])


def leads(facts, body, start, end, without):
    """Whether the steps of a body lead from one entity to another by facts that are not the one asked about."""
    here = {start}
    for relation, forwards in body:
        steps = {(h, t) if forwards else (t, h) for h, r, t in facts - {without} if r == relation}
        here = {b for a, b in steps if a in here}
    return end in here


@given(TRIPLES)
def test_a_rule_is_named_if_it_leads_from_head_to_tail_without_the_fact_itself(facts):
    graph, book = graph_of(facts), Rulebook(graph_of(facts))
    for relation in range(RELATIONS):
        rules = mine(graph.train, ENTITIES, RELATIONS, least_confidence=LEAST_CONFIDENCE, only=relation)
        for head, tail in np.ndindex(ENTITIES, ENTITIES):
            triple = head, relation, tail
            found = book.supporting(np.array(triple), most=99)
            expected = {rule for rule in rules if leads(facts, rule.body, head, tail, triple)}
            assert {rule for rule, _ in found} == expected
            for rule, path in found:
                assert set(path) <= facts - {triple}
                assert leads(set(path), rule.body, head, tail, triple)


def test_the_surest_come_first_and_a_few_examples_make_no_sure_rule():
    many = [(f"a{i}", "over", f"b{i}") for i in range(50)]
    facts = [*many, *((b, "under", a) for a, _, b in many[:45]), ("x", "over", "y"), ("x", "above", "y")]
    facts += [("v", "above", "w"), ("v", "over", "w"), ("a49", "above", "b49")]
    run = LinkPredictor(build_model(DistMult(dim=2), 104, 3), Graph.from_triples(facts))
    why = run.explain(head="b49", relation="under", tail="a49")
    assert [support.rule for support in why.rules] == ["y over x gives x under y"]
    (first,) = why.rules
    assert first.support == 45
    assert first.confidence == pytest.approx(45 / 52)
    assert list(map(str, first.facts)) == ["a49 — over — b49"]
    why = run.explain(head="a3", relation="over", tail="b3")
    assert [support.rule for support in why.rules] == ["y under x gives x over y"]
    assert run.explain(head="a3", relation="over", tail="b4").rules == []


def test_a_path_of_two_facts_is_told(run_command, tmp_path):
    facts = [(f"p{i}", "lives in", f"town{i % 4}") for i in range(24)]
    facts += [(f"town{i}", "lies in", f"land{i % 2}") for i in range(4)]
    facts += [(f"p{i}", "citizen of", f"land{i % 2}") for i in range(22)]
    graph = Graph.from_triples(facts)
    torch.manual_seed(0)
    run = LinkPredictor(build_model(DistMult(dim=2), len(graph.entities), 3), graph)
    (support,) = run.explain(head="p23", relation="citizen of", tail="land1", most=1).rules
    assert support.rule == "x lives in z and z lies in y give x citizen of y"
    assert list(map(str, support.facts)) == ["p23 — lives in — town3", "town3 — lies in — land1"]
    run.save(tmp_path / "run")
    asked = ("--head", "p23", "--relation", "citizen of", "--tail", "land1")
    _, output, _ = run_command("explain", tmp_path / "run", *asked)
    assert "92% of 24 cases: x lives in z and z lies in y give x citizen of y; here p23 — lives in" in output
