"""Negatives that a second model chooses: who is drawn, both gradients, the baseline, and what a user can get wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from capse.errors import SettingsError
from capse.models import MODELS
from capse.training.adversarial_learner import AdversarialLearner
from capse.training.adversary import Adversary, Baseline, build_adversarial, draw
from capse.training.batches import Epoch
from capse.training.losses import Loss
from capse.training.negatives import Negatives
from capse.training.optimizers import Optimizer
from capse.training.regularizers import Regularizer
from capse.training.settings import Training

ENTITIES = 12
LOTS = 2**23
MARGIN = Loss("margin", margin=3.0)
PUBLISHED = Negatives("bernoulli", filtered=False)
SIZES: dict[str, dict[str, Any]] = {
    "capse": {"filters": 3, "capsule_dim": 2},
    "scaled-capse": {"filters": 3, "capsule_dim": 2},
    "convkb": {"filters": 3},
    "conve": {"dim": 12, "height": 3, "filters": 2, "kernel": 2},
}


@pytest.fixture
def make_objective(make_model, triples):
    def make(model="transe", generator="distmult", *, loss=MARGIN, negatives=PUBLISHED, regularizer=None, **settings):
        first, second = (make_model(name, seed=n, **SIZES.get(name, {})) for n, name in enumerate((model, generator)))
        adversary = Adversary(model=generator, **settings)
        return build_adversarial(first, second, triples, adversary, loss, negatives, regularizer or Regularizer())

    return make


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_candidates_replace_one_side_and_are_not_looked_up(make_objective):
    """Uniform over all entities: known facts and the true triple itself are among them."""
    objective = make_objective(candidates=200)
    batch = objective.examples[:]
    rows = objective.rows(batch, seeded())
    heads, tails = rows[:, 3:203], rows[:, 203:403]
    assert torch.equal(rows[:, :3], batch)
    of_heads = (heads != batch[:, :1]).any(1)
    assert of_heads.any()
    assert not of_heads.all()
    for replaced, kept, true in ((heads, tails, batch[:, 2:]), (tails, heads, batch[:, :1])):
        chosen = of_heads if replaced is heads else ~of_heads
        assert (kept[chosen] == true[chosen]).all()
        assert all(row.unique().tolist() == list(range(ENTITIES)) for row in replaced[chosen])


def test_as_many_triples_are_scored_as_it_says(make_objective, monkeypatch):
    """The generator scores the candidates, the discriminator the true triple and those that are drawn."""
    objective = make_objective(candidates=7, negatives=replace(PUBLISHED, count=3))
    scored = 0
    for model in objective.models:
        whole = model.score_triples

        def counting(heads, relations, tails, whole=whole):
            nonlocal scored
            scored += heads[0].numel()
            return whole(heads, relations, tails)

        monkeypatch.setattr(model, "score_triples", counting)
    objective.losses(objective.rows(objective.examples[:], seeded()))
    assert objective.triples_each == scored == 7 + 1 + 3


def test_candidates_are_false_on_request(make_objective, triples):
    objective = make_objective(negatives=Negatives("uniform"), candidates=50)
    rows = objective.rows(objective.examples[:], seeded())
    known = set(map(tuple, triples.tolist()))
    for h, r, t, *rest in rows.tolist():
        assert (h, r, t) in known
        assert not known & {(a, r, b) for a, b in zip(rest[:50], rest[50:100], strict=True)}


def test_candidates_are_drawn_as_often_as_their_chances_say():
    chances = torch.tensor([[0.5, 0.0, 0.2, 0.3], [0.0, 1.0, 0.0, 0.0]])
    lots = torch.randint(LOTS, (2, 40_000), generator=seeded())
    lots[:, :2] = torch.tensor([0, LOTS - 1])  # the least and the most
    shares = torch.stack([row.bincount(minlength=4) for row in draw(chances.log(), lots)]) / 40_000
    torch.testing.assert_close(shares, chances, atol=0.01, rtol=0)
    assert (shares[chances == 0] == 0).all()


def test_one_step_is_that_of_the_formulas(make_objective, triples):
    """Both models' gradients and the reward in NumPy, triple by triple, for a drawn candidate each."""
    objective = make_objective(candidates=5)
    objective.baseline.value.fill_(-1.3)
    batch = objective.examples[[0, 4, 17, 29]]
    rows = objective.rows(batch, seeded(3))
    lowered, loss = objective.losses(rows)
    lowered.backward()
    d, g = ({k: v.detach().double().numpy() for k, v in m.named_parameters()} for m in objective.models)
    of_d, of_g = ({k: np.zeros_like(v) for k, v in tables.items()} for tables in (d, g))
    cost, rewards = 0.0, []
    for row in rows.tolist():
        (h, r, t), heads, tails, lot = row[:3], row[3:8], row[8:13], row[13]
        vectors = [(g["entities"][a], g["relations"][r], g["entities"][b]) for a, b in zip(heads, tails, strict=True)]
        powers = np.exp([(x * y * z).sum() for x, y, z in vectors])
        p = powers / powers.sum()
        c = int(np.searchsorted(p.cumsum(), (lot + 0.5) / LOTS))
        gaps = [d["entities"][a] + d["relations"][r] - d["entities"][b] for a, b in ((h, t), (heads[c], tails[c]))]
        true, drawn = (np.abs(gap).sum() for gap in gaps)
        rewards.append(-drawn)
        if 3.0 + true - drawn > 0:
            cost += 3.0 + true - drawn
            for gap, sign, a, b in ((gaps[0], 1, h, t), (gaps[1], -1, heads[c], tails[c])):
                of_d["entities"][a] += sign * np.sign(gap)
                of_d["relations"][r] += sign * np.sign(gap)
                of_d["entities"][b] -= sign * np.sign(gap)
        for i, (a, b) in enumerate(zip(heads, tails, strict=True)):
            weight = -(-drawn + 1.3) * ((i == c) - p[i])  # of the score of candidate i: d/ds −(R − b) log softmax(s)_c
            x, y, z = vectors[i]
            of_g["entities"][a] += weight * y * z
            of_g["relations"][r] += weight * x * z
            of_g["entities"][b] += weight * x * y
    assert loss.item() == pytest.approx(cost, rel=1e-5)
    assert float(objective.baseline.total) == pytest.approx(sum(rewards), rel=1e-6)
    assert float(objective.baseline.count) == 4
    for model, expected in zip(objective.models, (of_d, of_g), strict=True):
        for name, parameter in model.named_parameters():
            np.testing.assert_allclose(parameter.grad.numpy(), expected[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("baseline", [0.0, -4.0])
@pytest.mark.parametrize(("generator", "reduction"), [("distmult", "sum"), ("complex", "mean"), ("transe", "sum")])
def test_the_generators_gradient_is_in_the_mean_that_of_the_expected_reward(
    make_objective, generator, reduction, baseline
):
    """Every candidate drawn once, weighted by its chance, against autograd of −Σ p R; a baseline changes nothing."""
    objective = make_objective(generator=generator, loss=Loss("margin", margin=3.0, reduction=reduction), candidates=6)
    objective.baseline.value.fill_(baseline)
    batch = objective.examples[:3]
    rows = objective.rows(batch, seeded(1))
    heads, tails = rows[:, 3:9], rows[:, 9:15]
    weights = list(objective.generator.parameters())
    chances = objective.generator.score_triples(heads, batch[:, 1:2], tails).softmax(1)
    with torch.no_grad():
        rewards = objective.model.score_triples(heads, batch[:, 1:2], tails)
    expected_reward = (chances * rewards).sum(1)
    expected = torch.autograd.grad(-getattr(expected_reward, reduction)(), weights)

    sums = chances.detach().double().cumsum(1)
    middles = torch.cat([torch.zeros(3, 1), sums[:, :-1]], 1) + chances.detach() / 2
    found = [torch.zeros_like(weight) for weight in weights]
    for triple in range(3):
        for candidate in range(6):
            one = rows[[triple]].clone()
            one[0, 15] = int(middles[triple, candidate] * LOTS)
            lowered, _ = objective.losses(one)
            share = chances[triple, candidate].detach() / (3 if reduction == "mean" else 1)
            for total, gradient in zip(found, torch.autograd.grad(lowered, weights), strict=True):
                total += share * gradient
    for ours, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-6)
    assert any(gradient.abs().max() > 0.01 for gradient in expected)


def test_rewards_do_not_move_the_discriminator_nor_the_loss_the_generator(make_objective):
    objective = make_objective()
    rows = objective.rows(objective.examples[:], seeded())
    lowered, loss = objective.losses(rows)
    of_generator = torch.autograd.grad(loss, objective.generator.parameters(), allow_unused=True, retain_graph=True)
    assert set(of_generator) == {None}
    of_both = torch.autograd.grad(lowered, objective.model.parameters(), retain_graph=True)
    alone = torch.autograd.grad(loss, objective.model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(of_both, alone, strict=True))


def test_the_baseline_is_the_mean_reward_of_the_epoch_before():
    baseline, none = (Baseline(kind, torch.device("cpu")) for kind in ("epoch", "none"))
    seen: list[Any] = []
    for epoch, rewards in ((0, [-1.0, -2.0]), (0, [-6.0]), (1, [-8.0]), (1, [-2.0]), (2, [0.0])):
        for each in (baseline, none):
            each.enter(epoch)
        seen.append((float(baseline.value), float(none.value)))
        for each in (baseline, none):
            each.add(torch.tensor(rewards))
    assert seen == [(0, 0), (0, 0), (-3, 0), (-3, 0), (-5, 0)]


def test_each_model_has_its_own_rate_and_decay_and_both_follow_the_schedule(make_objective):
    objective = make_objective()
    training, optimizer = Training(batch_size=10, learning_rate=0.01), Optimizer(embedding_decay=0.1)
    learner = AdversarialLearner(objective, training, optimizer, Adversary(learning_rate=0.03, embedding_decay=0.2))
    epoch = Epoch(0, 3, 0, objective.examples, torch.arange(30))
    learner.step(epoch, 0, 0.005)
    groups = [optimizer.param_groups[0] for optimizer in (learner.optimizer, learner.generator_optimizer)]
    assert [group["lr"] for group in groups] == pytest.approx([0.005, 0.015])
    assert [group["weight_decay"] for group in groups] == [0.1, 0.2]


@pytest.mark.parametrize("name", MODELS.builtin)
def test_any_model_can_be_either(make_objective, triples, name):
    """A step moves both, and each stays within its constraints."""
    for names in ((name, "distmult"), ("transe", name)):
        objective = make_objective(*names, candidates=4)
        learner = AdversarialLearner(objective, Training(batch_size=10), Optimizer(), Adversary())
        learner.train(True)
        before = [model.entities.detach().clone() for model in objective.models]
        assert torch.isfinite(learner.step(Epoch(0, 3, 0, objective.examples, torch.arange(30)), 1, 0.1))
        assert not any(torch.equal(a, model.entities) for a, model in zip(before, objective.models, strict=True))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"candidates": 1}, "adversary.candidates is 1: choose 2 or more"),
        ({"dim": 0}, "adversary.dim is 0: choose 1 or more"),
        ({"learning_rate": 0.0}, "adversary.learning_rate is 0.0: choose a number above 0"),
        ({"embedding_decay": -1.0}, "adversary.embedding_decay is -1.0: choose 0 or more"),
        ({"baseline": "mean"}, "adversary.baseline is 'mean': choose from epoch, none"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(SettingsError, match=message):
        Adversary(**settings)


def test_what_does_not_go_with_an_adversary(make_objective, make_model, triples):
    with pytest.raises(
        SettingsError, match=r"negatives.sampler is 'shared' with an adversary: choose bernoulli or unif"
    ):
        make_objective(negatives=Negatives("shared"))
    with pytest.raises(
        SettingsError, match=r"loss.name is 'bce' with negatives that an adversary draws: use one of sof"
    ):
        make_objective(loss=Loss("bce"))
    models = make_model("transe", reciprocal=True), make_model("distmult")
    with pytest.raises(SettingsError, match="the model has reciprocal relations and its adversary has not: train both"):
        build_adversarial(*models, triples, Adversary(model="distmult"), MARGIN, PUBLISHED, Regularizer())
