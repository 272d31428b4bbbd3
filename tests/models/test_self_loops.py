"""What a fact that relates an entity to itself gets beside its score."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from capse.models import build_model, model_settings

E, R = 5, 3
TRIPLES = np.array([[0, 0, 0], [1, 0, 1], [0, 0, 1], [2, 1, 3], [3, 1, 2]])  # relation 2 has no fact at all
ODDS = np.log([2.5 / 1.5, 0.5 / 2.5, 0.5 / 0.5])


def built(name, *, reciprocal, self_loops):
    sizes = {"distance_dims": 2} if name == "complex-capse" else {}
    settings = model_settings({"name": name, "dim": 4, "reciprocal": reciprocal, "self_loops": self_loops, **sizes})
    model = build_model(settings, E, R).eval()
    model.count_self_loops(TRIPLES)
    return model


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("name", ["transe", "complex", "complex-capse"])
def test_it_gets_the_log_odds_of_such_facts_whoever_is_asked_for(name, reciprocal):
    plain, counted = (built(name, reciprocal=reciprocal, self_loops=chosen) for chosen in (False, True))
    entities, relations = torch.cartesian_prod(torch.arange(E), torch.arange(R)).T
    own = torch.eye(E)[entities] * torch.tensor(ODDS).float()[relations][:, None]  # (E R, E)
    picked = torch.tensor([4, 0, 2])
    everyone = torch.arange(E)
    with torch.no_grad():
        for ask in (
            lambda model: model.score_tails(entities, relations),
            lambda model: model.score_heads(relations, entities),
            lambda model: model.score_triples(entities[:, None], relations[:, None], everyone),
        ):
            torch.testing.assert_close(ask(counted) - ask(plain), own, rtol=0, atol=1e-5)
        for ask in (
            lambda model: model.score_tails(entities, relations, picked),
            lambda model: model.score_heads(relations, entities, picked),
        ):
            torch.testing.assert_close(ask(counted) - ask(plain), own[:, picked], rtol=0, atol=1e-5)
        found = [model.score_relations(everyone, torch.tensor([0, 0, 2, 2, 4])) for model in (counted, plain)]
    expected = np.where(np.array([True, False, True, False, True])[:, None], ODDS, 0)
    np.testing.assert_allclose(found[0] - found[1], expected, atol=1e-5)


def test_inverse_relations_have_the_same_loops():
    model = built("complex", reciprocal=True, self_loops=True)
    np.testing.assert_allclose(model.loops, np.concatenate([ODDS, ODDS]), rtol=1e-6)


def test_a_model_without_the_setting_has_nothing_to_save():
    assert "loops" not in built("complex", reciprocal=False, self_loops=False).state_dict()
