"""What a refined model answers, against the rule said in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from capse import ComplEx, DistMult, TransE
from capse.errors import DataError, SettingsError
from capse.graph.dataset import Graph
from capse.graph.link_prediction.ranking import rank_split
from capse.graph.refinement import features as features_module
from capse.graph.refinement.features import Features, check_relations
from capse.graph.refinement.settings import Refinement
from capse.kernels.motifs import keys as k
from capse.kernels.motifs import reference
from capse.models import build_model
from capse.triples import HEAD, TAIL
from tests.graph.refinement.conftest import flat_model, refined_by


def random_graph(seed: int, relations: int = 2, entities: int = 9, facts: int = 30) -> Graph:
    generator = np.random.default_rng(seed)
    rows = {
        (f"e{generator.integers(entities)}", f"r{generator.integers(relations)}", f"e{generator.integers(entities)}")
        for _ in range(facts)
    }
    ring = [(f"e{i}", f"r{r}", f"e{(i + 1) % entities}") for i in range(entities) for r in range(relations)]
    return Graph.from_triples([*ring, *sorted(rows)])


def plain_scores(graph, base, weights, question, top, rule, keep, weight):
    """All answers of one question, from the definition: best first among the best, the others below in their order."""
    node, r, of_heads = question
    train = set(map(tuple, graph.train.tolist()))
    with torch.no_grad():
        relation, given = torch.tensor([r]), torch.tensor([node])
        own = (base.score_heads(relation, given) if of_heads else base.score_tails(given, relation))[0].double().numpy()

    def edge(answer):
        return (answer, r, node) if of_heads else (node, r, answer)

    new = sorted((own[e] for e in range(len(own)) if edge(e) not in train), reverse=True)
    best = [e for e in range(len(own)) if len(own) <= top or len(new) <= top or own[e] > new[top]]
    loops = [(s, q, t) for s, q, t in train if s != t]
    goes = [e for e in loops if e[1] == r]
    both_ways = bool(goes) and np.mean([(t, q, s) in train for s, q, t in goes]) > 0.5
    first = [e for e in range(len(own)) if rule and both_ways and edge(e)[::-1] in train]
    best = sorted({*best, *first})
    motifs = {}
    for answer in best:
        changes = reference.changed_by(edge(answer), train, len(graph.relations), legs=False)
        motifs[answer] = keep * own[answer] + weight * sum(weights.get(key, 0) * v for key, v in changes.items())
    order = sorted(best, key=lambda e: (e not in first, -motifs[e]))
    return [*order, *sorted((e for e in range(len(own)) if e not in best), key=lambda e: -own[e])], motifs


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.booleans(), st.booleans(), st.integers(1, 6))
def test_answers_stand_in_the_order_that_plain_python_gives_them(seed, of_heads, rule, top):
    graph = random_graph(seed)
    generator = np.random.default_rng(seed)
    kind = [TransE(dim=4), DistMult(dim=4), ComplEx(dim=4, reciprocal=True)][seed % 3]
    base = build_model(kind, len(graph.entities), len(graph.relations), seed)
    keys = k.all_keys(len(graph.relations))
    weights = dict(zip(keys.tolist(), generator.normal(size=len(keys)).tolist(), strict=True))
    model = refined_by(graph, base, weights, top=top, symmetric=rule)
    model.motifs.keep.fill_(0.25)
    model.motifs.weight.fill_(0.75)
    node, r = int(generator.integers(len(graph.entities))), int(generator.integers(len(graph.relations)))
    ids = torch.tensor([r]), torch.tensor([node])
    with torch.no_grad():
        found = (model.score_heads(*ids) if of_heads else model.score_tails(*reversed(ids)))[0]
    order, motifs = plain_scores(graph, base, weights, (node, r, of_heads), top, rule, 0.25, 0.75)
    assert found.argsort(descending=True).tolist() == order
    if not rule:
        assert {e: pytest.approx(value, abs=1e-6) for e, value in motifs.items()} == {
            e: float(found[e]) for e in motifs
        }


def test_a_fact_the_other_way_round_decides(borders):
    """The model alone ranks by alphabet; with mutual edges Spain's missing neighbour comes first."""
    base = flat_model(borders)
    mutual = int(k.key_of(3, k.MUTUAL, 0, 0, 3))
    model = refined_by(borders, base, {mutual: 2.0})
    before, after = (rank_split(each, borders.test, borders.known)[1].realistic[0] for each in (base, model))
    assert before > 3
    assert after == 1


def test_the_rule_alone_puts_it_first(borders):
    model = refined_by(borders, flat_model(borders), {}, symmetric=True, top=1)
    assert rank_split(model, borders.test, borders.known)[1].realistic[0] == 1
    assert model.features.symmetric.tolist() == [True, False, False]


def test_without_weights_the_ranks_are_those_of_the_run():
    graph = random_graph(1)
    base = build_model(DistMult(dim=3), len(graph.entities), len(graph.relations))
    for side, refined in zip(
        rank_split(base, graph.train, None),
        rank_split(refined_by(graph, base, {}, top=3), graph.train, None),
        strict=True,
    ):
        assert refined.realistic.tolist() == side.realistic.tolist()


def test_answers_of_equal_score_enter_the_best_together_or_not_at_all():
    graph = random_graph(2)
    base = build_model(DistMult(dim=2), len(graph.entities), len(graph.relations))
    with torch.no_grad():
        base.entities.fill_(1.0)
    weights = dict.fromkeys(k.all_keys(2).tolist(), 1.0)
    model = refined_by(graph, base, weights, top=3)
    with torch.no_grad():
        scores = model.score_tails(torch.tensor([0]), torch.tensor([0]))
    assert scores.unique().numel() == 1


def test_a_triple_scores_as_an_answer_to_the_question_for_its_side(borders):
    model = refined_by(borders, flat_model(borders), {int(k.key_of(3, k.MUTUAL, 0, 0, 3)): 2.0}, top=2)
    h, r, t = torch.from_numpy(borders.train.astype(np.int64)).unbind(1)
    with torch.no_grad():
        of_tails, of_heads = model.score_tails(h, r), model.score_heads(r, t)
        rows = torch.arange(len(h))
        assert model.score_triples(h, r, t).tolist() == of_tails[rows, t].tolist()
        assert model.score_answers(TAIL, h, r, t).tolist() == of_tails[rows, t].tolist()
        assert model.score_answers(HEAD, h, r, t).tolist() == of_heads[rows, h].tolist()
        assert model.score_heads(r, t, rows[:3]).tolist() == of_heads[:, :3].tolist()


def test_exact_ranks_are_refused(borders):
    model = refined_by(borders, flat_model(borders), {})
    with pytest.raises(SettingsError, match="no exact ranks"):
        rank_split(model, borders.test, borders.known, exact=True)


def test_a_relation_without_training_facts_is_refused():
    graph = Graph.from_triples(np.array([[0, 1, 1]]), entities=["a", "b"], relations=["hates", "likes"])
    with pytest.raises(DataError, match=r"'hates'.*train the run anew"):
        check_relations(graph)


@pytest.mark.parametrize(("limit", "value"), [("MOST_MOTIFS", 20), ("MOST_WORK", 3)])
def test_a_graph_too_dense_for_three_relations_is_refused_with_the_remedy(monkeypatch, borders, limit, value):
    monkeypatch.setattr(features_module, limit, value)
    sizes = len(borders.entities), len(borders.relations)
    with pytest.raises(SettingsError, match=r"too dense for motifs of three relations: set refinement.relations=2"):
        Features.of(borders.train, *sizes, most=3)


def test_where_relations_are_many_only_motifs_that_occur_often_enough_are_kept(monkeypatch, borders):
    features = Features.of(borders.train, len(borders.entities), len(borders.relations), most=3)
    every = features.kept(Refinement())
    monkeypatch.setattr(features_module, "FEW_RELATIONS", 2)
    occurring = reference.counts(map(tuple, borders.train.tolist()), 3)
    assert set(features.kept(Refinement(least=3)).tolist()) == {key for key, n in occurring.items() if n >= 3}
    assert len(features.kept(Refinement())) < len(every) == len(k.all_keys(3))


def test_up_to_few_relations_every_motif_is_kept_and_self_loops_on_request(monkeypatch, borders):
    features = Features.of(borders.train, len(borders.entities), len(borders.relations), most=3)
    monkeypatch.setattr(features_module, "FEW_RELATIONS", 3)  # as many as there are
    every = set(k.all_keys(3).tolist())
    loops = {int(k.key_of(3, k.LOOP, relation, 3, 3)) for relation in range(3)}
    assert loops < every
    assert set(features.kept(Refinement(self_loops=True)).tolist()) == every
    assert set(features.kept(Refinement(self_loops=False)).tolist()) == every - loops


@pytest.mark.parametrize("wrong", [{"top": 0}, {"least": 0}, {"clip": 0.0}, {"penalty": -1.0}, {"alpha": "often"}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(SettingsError, match=rf"refinement\.{next(iter(wrong))} is"):
        Refinement(**wrong)
