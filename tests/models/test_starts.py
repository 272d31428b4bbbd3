"""Starts that make the network another model: compared with that model's own formula."""

from __future__ import annotations

import pytest
import torch

from capse import ComplEx, DistMult, ScaledCapsE, TransE
from capse.errors import SettingsError
from capse.models import build_model
from capse.models.scaled_capse import ScaledCapsEScorer
from capse.models.starts import product_filters

ENTITIES, RELATIONS, PRODUCTS, DISTANCES = 40, 6, 60, 30


def started(entity_size=0.4, relation_size=0.2, knots=8, **settings):
    """A scaled CapsE that starts as a product, over vectors of some size, and its scores of some triples."""
    settings = {"dim": PRODUCTS, "filters": 8 * knots + 3, "capsule_dim": 3} | settings
    model = build_model(ScaledCapsE(filter_start="product", **settings), ENTITIES, RELATIONS, seed=1)
    with torch.no_grad():
        model.entities.normal_(0, entity_size)
        model.relations.normal_(0, relation_size)
        model.adapt()
    return model


def all_scores(model):
    heads, relations = torch.arange(ENTITIES).repeat(RELATIONS), torch.arange(RELATIONS).repeat_interleave(ENTITIES)
    with torch.no_grad():
        return model.eval().score_tails(heads, relations)


def distmult(model):
    """DistMult's scores from the same vectors."""
    h, r = model.entities.repeat(RELATIONS, 1), model.relations[:RELATIONS].repeat_interleave(ENTITIES, 0)
    return ((h * r)[:, :PRODUCTS] @ model.entities[:, :PRODUCTS].T).detach()


def distance(model):
    h, r = model.entities.repeat(RELATIONS, 1), model.relations[:RELATIONS].repeat_interleave(ENTITIES, 0)
    return ((h + r)[:, None, PRODUCTS:] - model.entities[:, PRODUCTS:]).abs().sum(-1).detach()


def correlation(x, y):
    return torch.corrcoef(torch.stack([x.flatten(), y.flatten()]))[0, 1]


@pytest.mark.parametrize(("knots", "worst"), [(2, 1.2), (6, 0.15), (12, 0.04)])
def test_straight_lines_between_more_knots_are_nearer_to_the_product(knots, worst):
    filters, biases, weights = product_filters(knots)
    assert filters.shape == (3, 8 * knots)
    numbers = torch.randn(20_000, 3, generator=torch.Generator().manual_seed(0))
    drawn = torch.relu(numbers @ filters + biases) @ weights
    error = (drawn - numbers.prod(1)).square().mean().sqrt()
    assert error < worst


def test_lines_meet_the_product_on_the_axes():
    """Where one factor is zero the four cubes cancel exactly, however few the knots."""
    filters, biases, weights = product_filters(3)
    numbers = torch.tensor([[1.5, -0.7, 0.0], [0.0, 2.0, 1.0], [1.0, 0.0, -3.0]])
    torch.testing.assert_close(torch.relu(numbers @ filters + biases) @ weights, torch.zeros(3), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("entity_size", "relation_size"), [(0.4, 0.2), (1.0, 1.0), (0.3, 3.0)])
def test_it_ranks_as_distmult_whatever_the_size_of_the_vectors(entity_size, relation_size):
    model = started(entity_size, relation_size)
    assert correlation(all_scores(model), distmult(model)) > 0.99


@pytest.mark.parametrize("weight", [0.25, 2.0])
def test_the_last_dimensions_are_a_distance(weight):
    model = started(dim=PRODUCTS + DISTANCES, distance_dims=DISTANCES, distance_weight=weight)
    wanted = distmult(model) - weight * distance(model)
    scores = all_scores(model)
    assert correlation(scores, wanted) > 0.99
    assert (scores > 0).all(), "a length that was folded at zero would turn the order round"


def test_every_size_of_a_distance_leaves_the_length_above_zero():
    model = started(entity_size=20.0, relation_size=1e-3, dim=PRODUCTS + DISTANCES, distance_dims=DISTANCES)
    assert correlation(all_scores(model), -distance(model)) > 0.99


def test_other_starts_are_left_alone():
    model = build_model(ScaledCapsE(dim=4, filters=3), 5, 2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.adapt()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_it_can_start_as_transe():
    """−‖h + r − t‖₁ up to the noise in filters and weights."""
    torch.manual_seed(0)
    scorer = ScaledCapsEScorer(ScaledCapsE(dim=50, filters=7, capsule_dim=3, filter_start="distance"))
    h, r, t = torch.randn(3, 200, 50) * 0.1
    distances = (h + r - t).abs().sum(1)
    scores = scorer.score_triples(h, r, t).detach()
    assert correlation(scores, -distances) > 0.97
    torch.testing.assert_close(scores, -distances, rtol=0.1, atol=0.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"filter_start": "product", "filters": 18}, "model.filter_start is 'product' and model.filters 18: set .*=19"),
        ({"filter_start": "distance", "filters": 1}, "model.filter_start is 'distance' and model.filters 1: set .*=2"),
        ({"distance_dims": 3}, "model.distance_dims is 3 and model.filter_start 'normal'"),
        ({"filter_start": "product", "dim": 4, "distance_dims": 4}, "model.distance_dims is 4"),
        ({"distance_weight": -0.5}, "model.distance_weight is -0.5: choose 0 or more"),
    ],
)
def test_what_cannot_be_is_said(settings, message):
    with pytest.raises(SettingsError, match=message):
        ScaledCapsE(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        TransE(dim=6),
        DistMult(dim=6),
        ComplEx(dim=6),
    ],
)
def test_an_inverse_relation_asks_the_other_way_round(settings):
    model = build_model(settings, ENTITIES, RELATIONS)
    inverse = model.scorer.inverse(model.relations)
    h, t = model.entities[:10], model.entities[10:20]
    r, back = model.relations[[0, 1, 2, 3, 4, 5, 0, 1, 2, 3]], inverse[[0, 1, 2, 3, 4, 5, 0, 1, 2, 3]]
    torch.testing.assert_close(model.scorer.score_triples(h, r, t), model.scorer.score_triples(t, back, h))
