"""Objectives against losses added up by hand, triple by triple, from the model's own scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from capse.errors import SettingsError
from capse.kernels import cpu
from capse.kernels.scoring import forced
from capse.training.losses import Loss
from capse.training.negatives import Negatives
from capse.training.objectives import build_objective, with_inverses
from capse.training.regularizers import Regularizer
from capse.triples import TripleIndex

ENTITIES, RELATIONS = 12, 3


def build(model, triples, loss, **negatives):
    return build_objective(model, triples, loss, Negatives(**negatives), Regularizer())


def value(objective, batch, seed=0):
    with torch.no_grad():
        return float(objective(batch, torch.Generator().manual_seed(seed)))


def score(model, h, r, t):
    """One triple's score; a head is asked for through the inverse relation where there is one."""
    with torch.no_grad():
        return float(model.score_triples(*(torch.tensor([x]) for x in (h, r, t))))


def head_score(model, h, r, t):
    return score(model, t, r + RELATIONS, h) if model.reciprocal else score(model, h, r, t)


def test_inverse_triples():
    found = with_inverses(np.array([[4, 1, 5], [6, 0, 7]]), 3)
    assert found.tolist() == [[4, 1, 5], [6, 0, 7], [5, 4, 4], [7, 3, 6]]


def spied(objective, monkeypatch):
    """Every (heads, relations, tails) that the objective has scored as triples."""
    seen = []
    real = objective.model.score_triples

    def spy(heads, relations, tails):
        seen.append(torch.stack(torch.broadcast_tensors(heads, relations, tails), -1).reshape(-1, 3))
        return real(heads, relations, tails)

    monkeypatch.setattr(objective.model, "score_triples", spy)
    return seen


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("sampler", ["uniform", "bernoulli"])
def test_corruption(make_model, triples, monkeypatch, sampler, reciprocal):
    model = make_model(reciprocal=reciprocal)
    objective = build(model, triples, Loss(name="softplus"), sampler=sampler, count=5)
    seen = spied(objective, monkeypatch)
    batch = objective.examples[:7]
    found = value(objective, batch)
    scored = torch.cat(seen).reshape(7, 6, 3)
    assert torch.equal(scored[:, 0], batch)
    examples = with_inverses(triples, RELATIONS) if reciprocal else triples
    known = set(map(tuple, examples[:].tolist()))
    assert not known & set(map(tuple, scored[:, 1:].reshape(-1, 3).tolist()))
    assert (scored[..., 1] == batch[:, None, 1]).all()
    expected = sum(np.log1p(np.exp(-score(model, *row[0]))) for row in scored.tolist())
    expected += sum(np.log1p(np.exp(score(model, *wrong))) for row in scored.tolist() for wrong in row[1:])
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("reciprocal", [False, True])
def test_the_rows_of_a_batch_have_its_loss(make_model, triples, reciprocal):
    """What is drawn ahead for a recorded step costs what the objective says of the batch."""
    objective = build(make_model(reciprocal=reciprocal), triples, Loss(name="softplus"), sampler="uniform", count=5)
    batch = objective.examples[:7]
    rows = objective.rows(batch, torch.Generator().manual_seed(0))
    assert rows.shape == (7, 2 * objective.triples_each + 1)
    assert float(objective.losses(rows)[0].detach()) == pytest.approx(value(objective, batch), rel=1e-6)


@pytest.mark.parametrize("sampler", ["uniform", "bernoulli"])
def test_reciprocal_models_see_inverse_triples_and_replace_tails_only(make_model, triples, monkeypatch, sampler):
    model = make_model(reciprocal=True)
    objective = build(model, triples, Loss(), sampler=sampler, count=50)
    assert objective.examples[:].tolist() == with_inverses(triples, RELATIONS).tolist()
    seen = spied(objective, monkeypatch)
    value(objective, objective.examples[:])
    scored = torch.cat(seen).reshape(-1, 51, 3)
    assert (scored[..., 0] == scored[:, :1, 0]).all()
    assert (scored[:, 1:, 2] != scored[:, :1, 2]).all()


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("name", ["softplus", "softmax", "margin"])
def test_shared_negatives_leave_known_facts_out(make_model, triples, name, reciprocal):
    """With 200 draws over 12 entities every known fact is drawn; the loss must not contain one."""
    model = make_model(reciprocal=reciprocal)
    objective = build(model, triples, Loss(name=name, margin=1.0), sampler="shared", count=200)
    batch = objective.examples[[0, 3, 20]]
    drawn = torch.randint(ENTITIES, (200,), generator=torch.Generator().manual_seed(4)).tolist()
    assert set(drawn) == set(range(ENTITIES))
    known = set(map(tuple, objective.examples[:].tolist()))

    def cost(positive, negative):
        if name == "softplus":
            return np.log1p(np.exp(-positive)) + np.log1p(np.exp(negative)).sum()
        if name == "softmax":
            return -np.log(np.exp(positive) / (np.exp(positive) + np.exp(negative).sum()))
        return np.maximum(0, 1.0 - positive + negative).sum()

    expected = 0.0
    for h, r, t in batch.tolist():
        tails = np.array([score(model, h, r, x) for x in drawn if (h, r, x) not in known])
        heads = np.array([score(model, x, r, t) for x in drawn if (x, r, t) not in known])
        sides = [tails] if reciprocal else [tails, heads]
        assert all(0 < len(side) <= 200 for side in sides)
        expected += np.mean([cost(score(model, h, r, t), side) for side in sides])
    assert value(objective, batch, seed=4) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_softmax_over_all_entities(make_model, triples, reduction, reciprocal):
    model = make_model("complex", reciprocal=reciprocal)
    loss = Loss(name="softmax", reduction=reduction)
    objective = build(model, triples, loss, sampler="all")
    batch = objective.examples[[1, 5, 8, 2]]
    costs = []
    for h, r, t in batch.tolist():
        tails = np.array([score(model, h, r, x) for x in range(ENTITIES)])
        heads = np.array([score(model, x, r, t) for x in range(ENTITIES)])
        sides = [(tails, t)] if reciprocal else [(tails, t), (heads, h)]
        costs.append(np.mean([-np.log(np.exp(x[answer]) / np.exp(x).sum()) for x, answer in sides]))
    assert value(objective, batch) == pytest.approx(getattr(np, reduction)(costs), rel=1e-5)


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("name", ["bce", "kl"])
def test_cross_entropy_of_all_answers(make_model, triples, name, smoothing, reduction, reciprocal):
    """Each distinct question once, all its known answers aimed at, each question of a batch counting alike."""
    model = make_model(reciprocal=reciprocal)
    loss = Loss(name=name, reduction=reduction, smoothing=smoothing)
    objective = build(model, triples, loss, sampler="all")
    rows = triples.tolist()
    questions = {(h, r, 0) for h, r, _ in rows}
    questions |= {(t, r + RELATIONS, 0) for _, r, t in rows} if reciprocal else {(t, r, 1) for _, r, t in rows}
    assert len(objective.examples) == len(questions)
    assert set(map(tuple, objective.examples[:].tolist())) == questions

    batch = objective.examples[[0, 1, 2, 3, -1]]  # where heads are asked for too, one question does
    costs = []
    for entity, relation, asks_heads in batch.tolist():
        if asks_heads:
            answers = {h for h, r, t in rows if (r, t) == (relation, entity)}
            scores = [head_score(model, x, relation, entity) for x in range(ENTITIES)]
        elif relation >= RELATIONS:
            answers = {h for h, r, t in rows if (r, t) == (relation - RELATIONS, entity)}
            scores = [score(model, entity, relation, x) for x in range(ENTITIES)]
        else:
            answers = {t for h, r, t in rows if (h, r) == (entity, relation)}
            scores = [score(model, entity, relation, x) for x in range(ENTITIES)]
        labels = np.array([x in answers for x in range(ENTITIES)])
        if name == "bce":
            labels = (1 - smoothing) * labels + smoothing / ENTITIES
            chance = 1 / (1 + np.exp(-np.array(scores)))
            costs.append(-(labels * np.log(chance) + (1 - labels) * np.log(1 - chance)).mean())
        else:
            labels = (1 - smoothing) * labels / len(answers) + smoothing / ENTITIES
            costs.append(-(labels * np.log(np.exp(scores) / np.exp(scores).sum())).sum())
    assert value(objective, batch) == pytest.approx(getattr(np, reduction)(costs), rel=1e-5)


@pytest.mark.parametrize("reciprocal", [False, True])
def test_labels_are_the_known_answers(make_model, triples, monkeypatch, reciprocal):
    """Of every question, in any order and more than once, those that ask for tails first."""
    objective = build(make_model(reciprocal=reciprocal), triples, Loss(name="bce"), sampler="all")
    found = []

    def record(scores, answered):
        labels = torch.zeros(scores.shape)
        labels[answered.rows, answered.entities] += 1
        assert answered.counts.tolist() == labels.sum(1).tolist()
        found.append(labels)
        return scores.sum(1)

    monkeypatch.setattr(objective.function, "of_answers", record)
    count = len(objective.examples)
    known = with_inverses(triples, RELATIONS) if reciprocal else triples
    index = TripleIndex(known, ENTITIES, 2 * RELATIONS if reciprocal else RELATIONS)
    for seed, size in ((0, count), (1, 7), (2, 1), (3, 2 * count)):
        picked = torch.randint(count, (size,), generator=torch.Generator().manual_seed(seed))
        batch = objective.examples[picked]
        value(objective, batch)
        ordered = sorted(batch.numpy(), key=lambda question: question[2])
        for (entity, relation, asks_heads), labels in zip(ordered, found.pop(), strict=True):
            one = np.array([entity]), np.array([relation])
            answers = index.heads(one[1], one[0])[0] if asks_heads else index.tails(*one)[0]
            assert labels.nonzero().squeeze(1).tolist() == answers.tolist()
            assert set(labels.tolist()) <= {0, 1}


FORMS: dict[str, dict[str, Any]] = {
    "convkb": {"filters": 6},
    "paper": {"filters": 6, "capsule_dim": 3},
    "paper-routed": {"filters": 6, "capsule_dim": 3, "routing": 2},
    "released": {"filters": 6, "capsule_dim": 3, "variant": "released"},
    "released-routed": {"filters": 6, "capsule_dim": 3, "variant": "released", "routing": 3},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize(
    ("loss", "sampler"), [("softmax", "all"), ("bce", "all"), ("kl", "all"), ("softmax", "shared")]
)
def test_many_candidates_are_trained_through_the_kernel(
    make_model, triples, monkeypatch, form, reciprocal, loss, sampler
):
    """With the same loss and the same gradients as by the plain formula, and no setting that says so."""
    name = "convkb" if form == "convkb" else "capse"
    model = make_model(name, reciprocal=reciprocal, filter_start="normal", **FORMS[form])
    objective = build(model, triples, Loss(name=loss), sampler=sampler, count=20)
    made = []
    real = cpu.votes
    monkeypatch.setattr(cpu, "votes", lambda *call: made.append(1) or real(*call))

    def gradients():
        found = objective(objective.examples[[0, 1, 2, 7, -1]], torch.Generator().manual_seed(2))
        return found.detach(), torch.autograd.grad(found, list(model.parameters()))

    ours = gradients()
    assert made
    made.clear()
    with forced("reference"):
        expected = gradients()
    assert not made
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("loss", "sampler", "remedy"),
    [
        ("margin", "all", "choose one of softmax, bce, kl"),
        *((loss, sampler, "sampler=all") for loss in ("bce", "kl") for sampler in ("bernoulli", "shared")),
    ],
)
def test_combinations_that_make_no_sense(make_model, triples, loss, sampler, remedy):
    with pytest.raises(SettingsError, match=remedy):
        build(make_model(), triples, Loss(name=loss), sampler=sampler)


def relation_loss(model, triples):
    """−Σ log of each relation's share among all rows of the relation table, triple by triple."""
    total = 0.0
    for h, r, t in triples.tolist():
        scores = np.array([score(model, h, other, t) for other in range(len(model.relations))])
        total += np.log(np.exp(scores).sum()) - scores[r]
    return total


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("name", ["complex", "transe"])
@pytest.mark.parametrize(
    ("loss", "sampler"), [("softplus", "bernoulli"), ("softmax", "shared"), ("softmax", "all"), ("margin", "uniform")]
)
def test_relation_prediction_adds_the_relations_own_cross_entropy(make_model, triples, name, reciprocal, loss, sampler):
    model = make_model(name, reciprocal=reciprocal)
    plain, added = (
        build(model, triples, Loss(name=loss, relation_weight=weight), sampler=sampler) for weight in (0.0, 1.5)
    )
    batch = plain.examples[-7:]  # of inverse triples where there are any
    expected = 1.5 * relation_loss(model, batch)
    assert value(added, batch) - value(plain, batch) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("name", ["bce", "kl"])
def test_relation_prediction_is_about_every_answer_of_a_question(make_model, triples, name, reciprocal):
    model = make_model("complex", reciprocal=reciprocal)
    plain, added = (build(model, triples, Loss(name=name, relation_weight=w), sampler="all") for w in (0.0, 2.0))
    whole = plain.examples[:]
    expected = 2 * relation_loss(model, with_inverses(triples, RELATIONS) if reciprocal else np.repeat(triples, 2, 0))
    assert value(added, whole) - value(plain, whole) == pytest.approx(expected, rel=1e-4)


def test_a_negative_weight_of_relations_is_refused():
    with pytest.raises(SettingsError, match=r"loss\.relation_weight is -1: choose 0 or more"):
        Loss(relation_weight=-1)
