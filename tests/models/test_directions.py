"""All directions agree, for every registered model, on a graph that is enumerated whole (as in LibKGE)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from capse.models import MODELS

E, R = 5, 3
# Every (entity, relation) pair in an order that mixes relations, and then some of them again.
PAIRS = torch.cartesian_prod(torch.arange(E), torch.arange(R))
PAIRS = torch.cat([PAIRS[torch.tensor([7, 0, 14, 3, 9, 1, 12, 5, 10, 2, 8, 4, 13, 6, 11])], PAIRS[[3, 3, 0, 14]]])
ENTITY, RELATION = PAIRS.T

# Without a gradient to compute, a model may take another route: both are tested.
grad_modes = pytest.mark.parametrize("gradients", [False, True], ids=["inference", "training"])


def assert_close(actual, expected, rtol=1e-5):
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=rtol / 10 * expected.abs().max().item())


def assert_gradients_agree(model, actual, expected):
    parameters = dict(model.named_parameters())
    options: Any = {"allow_unused": True, "materialize_grads": True}
    want = torch.autograd.grad(expected, list(parameters.values()), **options)
    got = torch.autograd.grad(actual, list(parameters.values()), **options)
    assert any(x.any() for x in want), "nothing depends on any parameter"
    for name, x, y in zip(parameters, got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12, err_msg=name)


@grad_modes
class TestAllDirectionsAgree:
    def test_tails(self, make, gradients):
        model = make()
        with torch.set_grad_enabled(gradients):
            scores = model.score_tails(ENTITY, RELATION)
            expected = torch.stack(
                [model.score_triples(ENTITY, RELATION, torch.full_like(ENTITY, t)) for t in range(E)], 1
            )
        assert scores.shape == (len(PAIRS), E)
        assert_close(scores, expected)

    def test_heads(self, make, gradients):
        model = make()
        with torch.set_grad_enabled(gradients):
            scores = model.score_heads(RELATION, ENTITY)
            expected = torch.stack(
                [model.score_triples(torch.full_like(ENTITY, h), RELATION, ENTITY) for h in range(E)], 1
            )
        assert scores.shape == (len(PAIRS), E)
        assert_close(scores, expected)

    def test_relations(self, make, gradients):
        """The R relations that there are; a row of the inverses is never an answer."""
        for model in (make(), make(reciprocal=True)):
            with torch.set_grad_enabled(gradients):
                scores = model.score_relations(ENTITY, ENTITY.flip(0))
                expected = torch.stack(
                    [model.score_triples(ENTITY, torch.full_like(ENTITY, r), ENTITY.flip(0)) for r in range(R)], 1
                )
            assert scores.shape == (len(PAIRS), R)
            assert_close(scores, expected)

    @pytest.mark.parametrize("candidates", [[3], [4, 0, 2], [1, 1, 0, 3, 1, 2, 4]], ids=str)
    def test_candidates(self, make, gradients, candidates):
        """Candidates come back in the order asked for, each as often as asked for."""
        model, candidates = make(), torch.tensor(candidates)
        with torch.set_grad_enabled(gradients):
            tails, heads = model.score_tails(ENTITY, RELATION), model.score_heads(RELATION, ENTITY)
            assert_close(model.score_tails(ENTITY, RELATION, candidates), tails[:, candidates])
            assert_close(model.score_heads(RELATION, ENTITY, candidates), heads[:, candidates])

    @pytest.mark.parametrize("batch", [[0], [4, 4, 4], [2, 0, 1, 2]], ids=str)
    def test_a_query_is_scored_alike_in_any_company(self, make, gradients, batch):
        model = make()
        entity, relation = ENTITY[batch], RELATION[batch]
        with torch.set_grad_enabled(gradients):
            assert_close(model.score_tails(entity, relation), model.score_tails(ENTITY, RELATION)[batch])
            assert_close(model.score_heads(relation, entity), model.score_heads(RELATION, ENTITY)[batch])
            between = model.score_relations(ENTITY, ENTITY.flip(0))
            assert_close(model.score_relations(entity, ENTITY.flip(0)[batch]), between[batch])


def test_ids_broadcast(make, everything):
    model = make()
    entities, relations = torch.arange(E), torch.arange(R)
    with torch.no_grad():
        grid = model.score_triples(entities[:, None, None], relations[:, None], entities)
        one_relation = model.score_triples(entities, torch.tensor(2), entities.flip(0))
        flat = model.score_triples(*everything.T).view(E, R, E)
    assert_close(grid, flat)
    assert_close(one_relation, flat[entities, 2, entities.flip(0)])


def test_one_triple_is_one_number(make, everything):
    model = make()
    with torch.no_grad():
        score = model.score_triples(*torch.tensor([4, 2, 1]))
        assert_close(score, model.score_triples(*everything.T).view(E, R, E)[4, 2, 1])


@pytest.mark.parametrize(("queries", "candidates"), [(0, 3), (2, 0)])
def test_nothing_to_score_is_an_empty_answer(make, queries, candidates):
    model, ids = make(), torch.arange(2)[:queries]
    with torch.no_grad():
        assert model.score_tails(ids, ids, torch.arange(candidates)).shape == (queries, candidates)
        assert model.score_heads(ids, ids, torch.arange(candidates)).shape == (queries, candidates)
        assert model.score_relations(ids, ids).shape == (queries, R)


def test_gradients_agree(make):
    """Training against all entities (score_tails, score_heads) moves parameters as scoring triple by triple does."""
    model = make().double()
    weights = torch.randn(len(PAIRS), E, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    entity, relation, every = ENTITY[:, None], RELATION[:, None], torch.arange(E)

    by_triples = (weights * model.score_triples(entity, relation, every)).sum()
    assert_gradients_agree(model, (weights * model.score_tails(ENTITY, RELATION)).sum(), by_triples)

    by_triples = (weights * model.score_triples(every, relation, entity)).sum()
    assert_gradients_agree(model, (weights * model.score_heads(RELATION, ENTITY)).sum(), by_triples)

    by_triples = (weights[:, :R] * model.score_triples(entity, torch.arange(R), entity.flip(0))).sum()
    assert_gradients_agree(model, (weights[:, :R] * model.score_relations(ENTITY, ENTITY.flip(0))).sum(), by_triples)


class TestReciprocalRelations:
    def test_every_relation_has_an_inverse_of_its_own(self, make):
        plain, reciprocal = make(), make(reciprocal=True)
        assert plain.relations.shape[0] == R
        assert reciprocal.relations.shape == (2 * R, plain.relations.shape[1])
        assert reciprocal.relation_count == R

    def test_heads_are_the_tails_of_the_inverse(self, make):
        """score_heads(r, t)[h] is the score of (t, r + R, h)."""
        model = make(reciprocal=True)
        with torch.no_grad():
            scores = model.score_heads(RELATION, ENTITY)
            expected = model.score_triples(ENTITY[:, None], RELATION[:, None] + R, torch.arange(E))
            forward = model.score_triples(torch.arange(E), RELATION[:, None], ENTITY[:, None])
            subset = model.score_heads(RELATION, ENTITY, torch.tensor([4, 1]))
        assert_close(scores, expected)
        assert_close(subset, expected[:, [4, 1]])
        assert not torch.allclose(scores, forward), "the inverse has the relation's own vector"

    def test_tails_are_unchanged(self, make):
        model = make(reciprocal=True)
        with torch.no_grad():
            expected = model.score_triples(ENTITY[:, None], RELATION[:, None], torch.arange(E))
            assert_close(model.score_tails(ENTITY, RELATION), expected)


def test_equal_entities_tie_exactly(case, make):
    """'Ties are ties': entities with the same vector get bitwise the same score, wherever they stand in the table.

    Several sizes, none of them even: a matrix product may compute its last rows and columns by another route.
    """
    larger = {"capse": {"dim": 20, "filters": 10, "capsule_dim": 10}, "conve": {"dim": 30}}.get(case.name, {"dim": 20})
    starts = (make, case.build)  # random parameters, and a fresh model's
    for start, entities, sizes, queries in itertools.product(starts, (203, 1003), ({}, larger), (1, 7)):
        model = start(entities=entities, **sizes).eval()
        entity, relation = torch.zeros(queries, dtype=torch.long), torch.arange(queries) % R
        with torch.no_grad():
            model.entities.copy_(model.entities[:1].expand_as(model.entities))
            for scores in (model.score_tails(entity, relation), model.score_heads(relation, entity)):
                differing = (scores != scores[:, :1]).sum().item()
                assert not differing, (
                    f"{differing} of {scores.numel()} scores, {entities} entities, {sizes}, {queries} queries"
                )


def test_equal_relations_tie_exactly(make):
    for relations in (R, 41):
        model = make(relations=relations, reciprocal=True)
        with torch.no_grad():
            model.relations[:relations] = model.relations[:1]
            scores = model.score_relations(ENTITY, ENTITY.flip(0))
        assert scores.shape == (len(PAIRS), relations)
        assert scores.equal(scores[:, :1].expand_as(scores))


def test_every_registered_model_is_enumerated(all_cases):
    assert {case.name for case in all_cases} == set(MODELS)
