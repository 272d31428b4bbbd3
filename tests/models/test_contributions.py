"""What each dimension adds to a score: the equation in NumPy, and sums that are what they claim to be."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from capse.models import build_model, model_settings


def relu(x):
    return np.maximum(x, 0)


def squash(s, epsilon):
    square = float(s @ s)
    return square / (1 + square) * s / math.sqrt(square + epsilon)


def vectors(model, triple):
    h, r, t = triple
    return [tensor.detach().numpy() for tensor in (model.entities[h], model.relations[r], model.entities[t])]


def capsule_parts(model, settings, triple):
    """c_i W_i u_i, (k, d), by Algorithm 1 of the paper, one capsule at a time."""
    p = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    a = np.stack(vectors(model, triple), axis=1)  # (k, 3)
    u = relu(a @ p["scorer.filters"] + p["scorer.bias"])  # (k, N)
    released = getattr(settings, "variant", "") == "released"
    epsilon, factor = (1e-9, len(u)) if released else (0.0, 1)
    if released:
        u = np.array([squash(u_i, epsilon) for u_i in u])
    votes = np.array([w_i.T @ u_i for w_i, u_i in zip(p["scorer.weights"], u, strict=True)])
    b = np.zeros(len(u))
    for _ in range(settings.routing):
        c = factor * np.exp(b) / np.exp(b).sum()
        s = sum(c_i * vote for c_i, vote in zip(c, votes, strict=True))
        b = b + votes @ squash(s, epsilon)
    return c[:, None] * votes


def a_model(name, **settings):
    sizes = {"convkb": {"filters": 4}, "conve": {"height": 2, "filters": 2}}
    sizes["capse"] = sizes["scaled-capse"] = {"filters": 4, "capsule_dim": 3}
    filled = model_settings({"name": name, "dim": 6, "reciprocal": False, **sizes.get(name, {}), **settings})
    model = build_model(filled, entities=5, relations=3).double().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.7, generator=generator)
    return model, filled


def contributions(model, triple):
    h, r, t = (torch.tensor([i]) for i in triple)
    with torch.no_grad():
        found = model.scorer.contributions(model.entity(h), model.relation(r), model.entity(t))
        return found.values[0].numpy(), found.of, float(model.score_triples(h, r, t))


TRIPLES = [(0, 0, 1), (3, 2, 4), (2, 1, 2)]


@pytest.mark.parametrize("routing", [1, 3])
@pytest.mark.parametrize("form", ["paper", "released", "scaled"])
def test_each_capsule_adds_its_projection_on_the_output(form, routing):
    if form == "scaled":
        model, settings = a_model("scaled-capse", routing=routing)
    else:
        model, settings = a_model("capse", variant=form, routing=routing)
    for triple in TRIPLES:
        parts = capsule_parts(model, settings, triple)
        s = parts.sum(0)
        length = math.sqrt(s @ s)
        expected = np.array([part @ s / length for part in parts])
        assert expected.sum() == pytest.approx(length, rel=1e-12)
        values, of, score = contributions(model, triple)
        if form == "scaled":
            gamma = model.scorer.scale.item()
            np.testing.assert_allclose(values, gamma * expected, rtol=1e-9)
            assert (of, values.sum()) == ("the score", pytest.approx(score, rel=1e-9))
        elif form == "released":
            np.testing.assert_allclose(values, -expected, rtol=1e-9)
            assert "shorter is better" in of
            assert score == pytest.approx(-math.sqrt((length**2 / (1 + length**2)) ** 2 + 1e-9), rel=1e-6)
        else:
            np.testing.assert_allclose(values, expected, rtol=1e-9)
            assert score == pytest.approx(length**2 / (1 + length**2), rel=1e-9)


FORMULAS = {
    "transe": lambda p, h, r, t: -np.abs(h + r - t),
    "distmult": lambda p, h, r, t: h * r * t,
    "complex": lambda p, h, r, t: (
        (h[:6] + 1j * h[6:]) * (r[:6] + 1j * r[6:]) * (t[:6] - 1j * t[6:])
    ).real,
    "convkb": lambda p, h, r, t: np.array(
        [
            sum(relu(f @ (h[i], r[i], t[i]) + b) * w for f, b, w in zip(
                p["scorer.filters"].T, p["scorer.bias"], p["scorer.weights"][i], strict=True))
            for i in range(6)
        ]
    ),
}  # fmt: skip


def test_squash_keeps_a_share_of_each_product_and_distances_count_as_they_are():
    model, settings = a_model("complex-capse", distance_dims=2, distance_weight=0.3, threshold=1.5)
    for triple in TRIPLES:
        h, r, t = vectors(model, triple)
        products = FORMULAS["complex"]({}, h[:12], r[:12], t[:12])
        p = products.sum()
        kept = p**2 / (settings.threshold**2 + p**2)
        expected = [*(kept * products), *(-0.3 * np.abs(h[12:] + r[12:] - t[12:]))]
        values, of, score = contributions(model, triple)
        np.testing.assert_allclose(values, expected, rtol=1e-9)
        assert (of, values.sum()) == ("the score", pytest.approx(score, rel=1e-9))
    several = [
        model.entities[:4].view(2, 2, -1),
        model.relations[:1].expand(2, 2, -1),
        model.entities[1:].view(2, 2, -1),
    ]
    found = model.scorer.contributions(*several).values
    for one in ((0, 0), (0, 1), (1, 0), (1, 1)):
        alone = model.scorer.contributions(*(vector[one] for vector in several)).values
        torch.testing.assert_close(found[one], alone)


@pytest.mark.parametrize("name", FORMULAS)
def test_summands_follow_the_papers_equation(name):
    model, _ = a_model(name)
    p = {key: tensor.numpy() for key, tensor in model.state_dict().items()}
    for triple in TRIPLES:
        values, of, _ = contributions(model, triple)
        np.testing.assert_allclose(values, FORMULAS[name](p, *vectors(model, triple)), rtol=1e-9)
        assert of == "the score"


def test_summands_sum_to_what_they_say(make):
    """Of every model that gives any: one for each dimension, and where they are the score's, they sum to it."""
    model = make().double()
    for triple in TRIPLES:
        h, r, t = (torch.tensor([i]) for i in triple)
        with torch.no_grad():
            found = model.scorer.contributions(model.entity(h), model.relation(r), model.entity(t))
            score = model.score_triples(h, r, t)
        if found is not None:
            assert found.values.shape[0] == 1
            if found.of == "the score":
                torch.testing.assert_close(found.values.sum(-1), score, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("readout", ["length", "sigmoid"])
def test_the_score_rises_with_the_sum(variant, readout):
    model, _ = a_model("capse", variant=variant, readout=readout)
    found = [contributions(model, (h, r, t)) for h in range(5) for r in range(3) for t in range(5)]
    by_sum = sorted(found, key=lambda item: item[0].sum())
    scores = [score for _, _, score in by_sum]
    assert scores == sorted(scores)
    assert len(set(scores)) > 60


def test_nothing_is_divided_by_a_length_of_zero():
    model, _ = a_model("capse")
    with torch.no_grad():
        model.scorer.weights.zero_()
    values, _, score = contributions(model, (0, 0, 1))
    assert values.tolist() == [0.0] * 6
    assert score == 0


def test_a_model_whose_score_is_no_such_sum_says_so():
    model, _ = a_model("conve")
    h, r, t = (torch.tensor([i]) for i in (0, 0, 1))
    assert model.scorer.contributions(model.entity(h), model.relation(r), model.entity(t)) is None
