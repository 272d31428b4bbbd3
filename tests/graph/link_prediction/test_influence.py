"""What an answer hangs on: the formula in NumPy with derivatives by differences, and a planted fact."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import capse
from capse.graph.dataset import Graph
from capse.graph.link_prediction import influence
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.models import build_model
from capse.triples import HEAD, TAIL

FACTS = [
    ("a", "r", "b"),
    ("a", "s", "c"),
    ("d", "r", "a"),
    ("d", "s", "b"),
    ("e", "r", "c"),
    ("c", "s", "e"),
    ("b", "r", "b"),
]


@pytest.fixture
def graph():
    return Graph.from_triples(FACTS)


def random_model(graph, settings):
    model = build_model(settings, len(graph.entities), len(graph.relations))
    for table in model.tables:
        torch.nn.init.normal_(table, generator=torch.Generator().manual_seed(len(table)))
    return model


def loss(table, relations, reciprocal, fact, entity, vector, asked):
    """−log softmax of the answers of a DistMult, the entity's vector being another where the fact names it."""
    h, r, t = fact
    ends = {HEAD: vector if h == entity else table[h], TAIL: vector if t == entity else table[t]}
    total = 0.0
    for side in asked:
        relation = relations[r + len(relations) // 2] if reciprocal and side == HEAD else relations[r]
        question = ends[TAIL if side == HEAD else HEAD] * relation
        scores = table @ question  # rivals stand where they stood
        scores[fact[side]] = question @ ends[side]
        total += np.log(np.exp(scores).sum()) - scores[fact[side]]
    return total


def gradient(function, at):
    steps = 1e-5 * np.eye(len(at))
    return np.array([(function(at + step) - function(at - step)) / 2e-5 for step in steps])


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("asked", [HEAD, TAIL])
@pytest.mark.parametrize("triple", [(0, 0, 2), (3, 1, 1), (1, 0, 1)])
def test_the_change_is_that_of_the_formula(graph, reciprocal, asked, triple):
    model = random_model(graph, capse.DistMult(dim=3, reciprocal=reciprocal))
    table, relations = (one.detach().double().numpy() for one in model.tables)
    train = graph.train.tolist()
    expected = np.zeros(len(train))
    for entity in {triple[0], triple[2]}:
        about = [place for place, fact in enumerate(train) if entity in (fact[0], fact[2]) and fact != [*triple]]

        def of(fact, sides, entity=entity):
            return gradient(lambda v: loss(table, relations, reciprocal, fact, entity, v, sides), table[entity])

        gradients = np.array([of(train[place], (HEAD, TAIL)) for place in about])
        fisher = gradients.T @ gradients
        fisher += influence.DAMPING * np.diag(fisher).mean() * np.eye(3)
        expected[about] -= gradients @ np.linalg.solve(fisher, of(triple, (asked,)))
    places, changes = influence.without_each(model, graph.train, np.array(triple), asked)
    assert places.tolist() == np.flatnonzero(expected).tolist()
    assert changes == pytest.approx(expected[places], rel=1e-3, abs=1e-4)


def test_of_an_entity_with_many_facts_those_with_rare_ends_are_looked_at(monkeypatch):
    facts = [("hub", "r", f"e{i}") for i in range(9)] + [(f"e{i}", "s", f"e{i + 1}") for i in range(4, 8)]
    graph = Graph.from_triples(facts)
    model = random_model(graph, capse.DistMult(dim=3))
    monkeypatch.setattr(influence, "MOST", 4)
    hub, last = graph.entities.id("hub"), graph.entities.id("e0")
    places, _ = influence.without_each(model, graph.train, np.array([hub, 1, last]), TAIL)
    assert {graph.entities.labels[t] for _, _, t in graph.train[places].tolist()} == {"e0", "e1", "e2", "e3"}


@pytest.mark.parametrize("settings", [capse.TransE(dim=4), capse.ComplEx(dim=4), capse.CapsE(dim=8, filters=3),
                                      capse.ConvE(dim=12, height=3, filters=2)])  # fmt: skip
def test_every_kind_of_network_has_an_estimate(graph, settings):
    places, changes = influence.without_each(random_model(graph, settings), graph.train, np.array([0, 1, 1]), TAIL)
    assert len(places) == 5
    assert np.isfinite(changes).all()
    assert np.ptp(changes) > 0


def test_explanations_name_what_lowers_the_answer_the_most(graph):
    run = LinkPredictor(random_model(graph, capse.DistMult(dim=3)), graph)
    why = run.explain(head="a", relation="r", tail="c", removals=True, most=2)
    _, changes = influence.without_each(run.model, graph.train, run.encode([("a", "r", "c")])[0], TAIL)
    best = [change for change in np.sort(changes)[:2] if change < 0]
    assert best
    assert [one.change for one in why.removals] == pytest.approx(best)
    assert run.explain(head="a", relation="r", tail="c").removals is None
    assert ("a", "r", "c") not in [(one.fact.head, one.fact.relation, one.fact.tail) for one in why.removals]


def test_rules_have_no_vectors_to_move():
    rules = capse.fit(FACTS, capse.Rules())
    assert rules.explain(head="a", relation="r", tail="c", removals=True).removals == []
