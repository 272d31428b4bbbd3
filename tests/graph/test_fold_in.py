"""The loss by which new entities are folded in, and where they begin, against plain loops over the formulas."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from capse.errors import SettingsError
from capse.graph import fold_in
from capse.graph.fold_in import FoldIn
from capse.models import build_model, model_settings
from capse.triples import TripleIndex

ENTITIES, RELATIONS = 7, 2
TRAIN = np.array([[0, 0, 1], [0, 0, 2], [3, 0, 1], [4, 1, 5], [6, 1, 5], [2, 1, 0]])
FACTS = np.array([[7, 0, 1], [3, 0, 7], [7, 1, 8], [8, 1, 5]])  # of new entities 7 and 8
DRAWN = torch.tensor([1, 4, 0, 6, 6, 8])


@pytest.fixture(params=[("distmult", False), ("complex", True), ("transe", False)], ids=lambda one: one[0])
def model(request):
    name, reciprocal = request.param
    settings = model_settings({"name": name, "dim": 4, "reciprocal": reciprocal})
    return build_model(settings, ENTITIES, RELATIONS, seed=3).double()


@pytest.fixture
def train():
    return TripleIndex(TRAIN, ENTITIES, RELATIONS)


@pytest.fixture
def vectors(model):
    return torch.from_numpy(np.random.default_rng(1).normal(size=(2, model.entities.shape[1])))


def plain_loss(model, vectors, drawn, trained):
    """Both questions of each fact, −log of the answer's share: those that a new entity asks against ``drawn``, who
    stand for all, those that it answers against all old entities. Then what the questions of ``trained`` triples, which
    stand for all of training's, lose to new entities.
    """
    table = torch.cat([model.entities.detach(), vectors])

    def f(h, r, t, backwards):
        if backwards and model.reciprocal:
            h, r, t = t, r + RELATIONS, h
        score = model.scorer.score_triples(table[[h]], model.relations.detach()[[r]], table[[t]])
        return float(score)

    def mass(asking, r, backwards, entities):
        return sum(math.exp(f(e, r, asking, True) if backwards else f(asking, r, e, False)) for e in entities)

    total = 0.0
    for h, r, t in FACTS.tolist():
        for asking, answer, backwards in ((h, t, False), (t, h, True)):
            if asking >= ENTITIES:
                weigh = (ENTITIES + len(vectors)) / len(drawn)
                others = weigh * mass(asking, r, backwards, [e for e in drawn.tolist() if e != answer])
            else:
                others = mass(asking, r, backwards, range(ENTITIES))
            right = mass(asking, r, backwards, [answer])
            total += math.log(1 + others / right)
    new = range(ENTITIES, ENTITIES + len(vectors))
    for h, r, t in trained.tolist():
        for asking, backwards in ((h, False), (t, True)):
            lost = math.log(1 + mass(asking, r, backwards, new) / mass(asking, r, backwards, range(ENTITIES)))
            total += 0.7 * len(TRAIN) / len(trained) * lost
    return total


@pytest.mark.parametrize("count", [2 * len(TRAIN), 4])
def test_the_loss(model, train, vectors, count):
    background = fold_in.Background.of(model, train, FoldIn(questions=count, absence=0.7))
    questions = fold_in._Questions(model, FACTS, background)
    with torch.no_grad():
        found = questions.loss(vectors, DRAWN)
    some = TRAIN
    if count < 2 * len(TRAIN):
        some = TRAIN[np.sort(np.random.default_rng(0).choice(len(TRAIN), count // 2, replace=False))]
    assert float(found) == pytest.approx(plain_loss(model, vectors, DRAWN, some), rel=1e-9)


def test_a_vector_begins_where_those_are_that_answer_alike(model, train):
    """7: heads of (0, 1) are 0 and 3, tails of (3, 0) are 1, heads of relation 1 are 2, 4 and 6; 8: heads of (1, 5)."""
    table = model.entities.detach()
    starts = fold_in._starts(model, 2, FACTS, train)
    alike = [table[[0, 3]].mean(0), table[[2, 4, 6]].mean(0), table[[1]].mean(0)]
    torch.testing.assert_close(starts[0], sum(alike) / 3)
    tails = table[[0, 5]].mean(0)  # of relation 1, for the question that 7 asks
    torch.testing.assert_close(starts[1], (table[[4, 6]].mean(0) + tails) / 2)


def test_steps_are_adagrads_and_the_pull_is_in_units_of_the_table(model, train):
    settings = FoldIn(steps=3, negatives=5, seed=4, pull=0.7)
    start = fold_in._starts(model, 2, FACTS, train)
    background, generator = fold_in.Background.of(model, train, settings), torch.Generator().manual_seed(4)
    questions = fold_in._Questions(model, FACTS, background)
    mean_square = float(model.entities.detach().square().mean())
    moved, squares = start.clone(), torch.zeros_like(start)
    for _ in range(3):
        drawn = torch.randint(ENTITIES + 2, (5,), generator=generator)
        moved = moved.detach().requires_grad_()
        pulled = 0.7 * ((moved - start) ** 2).sum() / mean_square
        (gradient,) = torch.autograd.grad(questions.loss(moved, drawn) + pulled, moved)
        squares += gradient**2
        moved = moved - settings.rate * math.sqrt(mean_square) * gradient / (squares.sqrt() + 1e-10)
    torch.testing.assert_close(fold_in.fold_in(model, FACTS, train, settings), moved.detach())


def test_few_entities_are_all_scored_against_an_answer(model, train):
    """Nothing is drawn then, and the seed changes nothing."""
    found = [fold_in.fold_in(model, FACTS, train, FoldIn(steps=3, negatives=9, seed=seed)) for seed in (0, 1)]
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_questions_of_training_lose_less_to_new_entities_where_they_are_asked(model, train):
    heads, relations, tails = torch.from_numpy(TRAIN).unbind(1)

    def lost(background):
        found = fold_in.fold_in(model, FACTS, train, FoldIn(steps=60), background=background)
        larger = torch.cat([model.entities.detach(), found])
        grown = model.over(larger, model.relations.detach())
        scores = torch.cat([grown.score_tails(heads, relations), grown.score_heads(relations, tails)])
        return float(-scores.softmax(dim=1)[:, :ENTITIES].sum(dim=1).log().sum())

    assert lost(None) < lost(fold_in.Background([], 0.3))


def test_vectors_stay_where_the_model_keeps_its_own(train):
    settings = model_settings({"name": "transe", "dim": 4, "reciprocal": False, "unit_ball": True})
    model = build_model(settings, ENTITIES, RELATIONS, seed=3)
    found = fold_in.fold_in(model, FACTS, train, FoldIn(steps=30, rate=3.0))
    assert float(found.norm(dim=1).max()) <= 1 + 1e-6


@pytest.mark.parametrize("key", ["steps", "negatives", "questions", "absence", "rate", "pull"])
def test_settings_that_make_no_sense(key):
    wrong: dict[str, Any] = {key: -1}
    with pytest.raises(SettingsError, match="give positive numbers"):
        replace(FoldIn(), **wrong)
    least: dict[str, Any] = {
        key: {"steps": 0, "negatives": 1, "questions": 2, "rate": 1e-9, "pull": 0.0, "absence": 0.0}[key]
    }
    assert getattr(replace(FoldIn(), **least), key) == least[key]
