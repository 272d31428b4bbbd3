"""Which motifs moved an answer, in words."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.refinement import reasons
from capse.graph.refinement.reasons import why_moved
from capse.kernels.motifs import keys as k
from capse.triples import HEAD, TAIL
from tests.graph.refinement.conftest import flat_model, refined_by

BORDERS, HAS, LIES_IN = range(3)  # the relations, sorted


def texts(graph, weights, fact, free=TAIL, **settings):
    model = refined_by(graph, flat_model(graph), weights, **settings)
    triple = LinkPredictor(model, graph).encode([fact])[0]
    return [str(reason) for reason in why_moved(model, graph, triple, free, most=5).motifs]


@pytest.mark.parametrize(
    ("motif", "weight", "fact", "text"),
    [
        ((k.MUTUAL, BORDERS, BORDERS, 3), 1.6, ("Spain", "borders", "France"),
         "France borders Spain, so Spain borders France: +1.6"),
        ((k.MUTUAL, LIES_IN, LIES_IN, 3), -3.0, ("Europe", "lies in", "France"),
         "France lies in Europe, which speaks against Europe lies in France: -3"),
        ((k.PATH, BORDERS, LIES_IN, 3), 0.5, ("Spain", "borders", "France"),
         "France lies in Europe, so Spain borders France: +0.5"),
        ((k.CLOSURE, BORDERS, LIES_IN, LIES_IN), 7.0, ("Hungary", "lies in", "Europe"),
         "Hungary borders Austria and Austria lies in Europe, so Hungary lies in Europe"),
        ((k.TRIANGLE, BORDERS, LIES_IN, HAS), 2.0, ("France", "borders", "Italy"),
         "Italy lies in Europe and Europe has France, so France borders Italy: +2"),
        ((k.LOOP, BORDERS, 3, 3), -2.0, ("Spain", "borders", "Spain"),
         "it is the question's own entity, which speaks against Spain borders Spain: -2"),
        ((k.IN_EXACTLY, BORDERS, BORDERS, 3), 1.0, ("Portugal", "borders", "France"),
         "of what else ends at France, so Portugal borders France: +1"),
    ],
)  # fmt: skip
def test_a_motif_is_told_with_the_facts_that_make_it(borders, motif, weight, fact, text):
    key = int(k.cycle_key(3, *motif[1:]) if motif[0] == k.TRIANGLE else k.key_of(3, *motif))
    found = texts(borders, {key: weight}, fact)
    assert any(reason.startswith(text) for reason in found)
    others = [reason for reason in found if not reason.startswith(text)]  # a closure is a share of its paths
    assert all(reason.startswith("it makes more paths") for reason in others)


def test_what_every_answer_has_is_left_out(borders):
    """How often the relation occurs, and what starts at the entity that is given."""
    shared = [
        k.key_of(3, k.EDGE, BORDERS, 3, 3), k.key_of(3, k.OUT_LEAST, BORDERS, BORDERS, 3),
        k.key_of(3, k.PATH, BORDERS, BORDERS, 3),
    ]  # fmt: skip
    weights = dict.fromkeys(map(int, shared), 1.0)
    for reason in texts(borders, weights, ("Spain", "borders", "Hungary")):
        assert reason.startswith("Hungary borders Austria")
    assert any("starts at Spain" in reason for reason in texts(borders, weights, ("Spain", "borders", "Hungary"), HEAD))


def test_reasons_add_up_to_the_difference_between_two_answers(borders, monkeypatch):
    """What all answers of a question share is left out of both, and cancels out of the difference of their scores."""
    monkeypatch.setattr(reasons, "_SLIGHT", -1.0)
    generator = np.random.default_rng(0)
    keys = k.all_keys(3)
    weights = dict(zip(keys.tolist(), generator.normal(size=len(keys)).tolist(), strict=True))
    model = refined_by(borders, flat_model(borders), weights)
    model.motifs.keep.fill_(0.25)
    model.motifs.weight.fill_(0.75)
    one, other = LinkPredictor(model, borders).encode([("Spain", "borders", "Italy"), ("Spain", "borders", "Austria")])
    totals = []
    for triple in (one, other):
        moved = why_moved(model, borders, triple, TAIL, most=100)
        totals.append(moved.keep * moved.score + sum(reason.value for reason in moved.motifs))
    with torch.no_grad():
        scores = model.score_tails(torch.tensor([one[0]]), torch.tensor([one[1]]))[0]
    assert float(scores[one[2]] - scores[other[2]]) == pytest.approx(totals[0] - totals[1], abs=1e-6)


def test_an_answer_that_may_not_change_places_has_no_reasons(borders):
    model = refined_by(borders, flat_model(borders), {}, top=1)
    triple = LinkPredictor(model, borders).encode([("Spain", "borders", "Austria")])[0]
    moved = why_moved(model, borders, triple, TAIL, most=5)
    assert not moved.among_best
    assert moved.motifs == []


def test_the_rule_is_said(borders):
    model = refined_by(borders, flat_model(borders), {}, symmetric=True)
    triple = LinkPredictor(model, borders).encode([("Spain", "borders", "France")])[0]
    assert why_moved(model, borders, triple, TAIL, most=5).first
