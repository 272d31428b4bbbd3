"""The loop: what a step does, which examples it sees, what seeds fix, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from capse.errors import RunError, SettingsError
from capse.training.batches import seeded_generator
from capse.training.checkpoints import Checkpoints
from capse.training.learner import GradientLearner
from capse.training.loop import Trainer
from capse.training.losses import Loss
from capse.training.negatives import Negatives
from capse.training.objectives import build_objective
from capse.training.optimizers import Optimizer
from capse.training.regularizers import Regularizer
from capse.training.settings import Training, Validation


@pytest.fixture
def make_trainer(make_model, triples, tmp_path):
    """A trainer of a small model; keyword arguments change the training settings."""

    def make(
        model=None, *, loss=None, negatives=None, optimizer=None, validation=None, validate=None, fingerprint="x",
        on_step=lambda report: None, **settings,
    ):  # fmt: skip
        settings = {"epochs": 2, "batch_size": 7, "learning_rate": 0.05, **settings}
        objective = build_objective(
            model or make_model(),
            triples,
            loss or Loss(),
            negatives or Negatives(),
            Regularizer(),
        )
        training, optimizer = Training(**settings), optimizer or Optimizer()
        return Trainer(
            GradientLearner(objective, training, optimizer),
            training,
            optimizer,
            validation or Validation(every=0),
            Checkpoints(tmp_path / "checkpoints", fingerprint),
            validate=validate,
            on_step=on_step,
        )

    return make


def train(trainer):
    records = list(trainer.run())
    return records, {name: tensor.clone() for name, tensor in trainer.learner.objective.model.state_dict().items()}


def watched(trainer):
    """The batches that the objective is given."""
    batches = []
    objective = trainer.learner.objective
    versions = objective.versions  # what a step of any kind begins with
    objective.versions = lambda batch, generator: (
        batches.append(batch.clone()),
        versions(batch, generator),
    )[1]
    return batches


@pytest.mark.parametrize("batch_size", [1, 4, 7, 29, 30, 100])
def test_batches_partition_every_epoch(make_trainer, triples, batch_size):
    trainer = make_trainer(batch_size=batch_size, epochs=3)
    batches = watched(trainer)
    train(trainer)
    steps = math.ceil(len(triples) / batch_size)
    assert len(batches) == 3 * steps
    epochs = [torch.cat(batches[i * steps : (i + 1) * steps]).tolist() for i in range(3)]
    assert all(sorted(epoch) == triples.tolist() for epoch in epochs)
    if steps > 1:
        assert epochs[0] != epochs[1] != epochs[2]
    sizes = [len(batch) for batch in batches]
    assert max(sizes) <= batch_size
    assert max(sizes) - min(sizes) <= 1


def test_draws_with_replacement_are_full_batches_of_independent_examples(make_trainer, triples):
    trainer = make_trainer(draw="replacement", batch_size=7, epochs=200)
    batches = watched(trainer)
    train(trainer)
    assert {len(batch) for batch in batches} == {7}
    assert len(batches) == 200 * math.ceil(30 / 7)  # ceil(n / batch) batches, as the released program
    rows = [triples.tolist().index(row) for row in torch.cat(batches).tolist()]
    counts = np.bincount(rows, minlength=30)
    chi_square = ((counts - len(rows) / 30) ** 2 / (len(rows) / 30)).sum()
    assert chi_square < 75  # 29 degrees of freedom
    epoch = rows[:35]
    assert len(set(epoch)) < len(epoch)


def test_every_draw_has_a_seed_of_its_own(make_trainer, monkeypatch):
    """SeedSequence((s, e)) and SeedSequence((s, e, 0)) are one and the same: an order and a step must not share it."""
    seeds = []

    def record(device, *numbers):
        generator = seeded_generator(device, *numbers)
        seeds.append(generator.initial_seed())
        return generator

    for module in ("batches",):
        monkeypatch.setattr(f"capse.training.{module}.seeded_generator", record)
    train(make_trainer(epochs=3))
    assert len(seeds) == 3 * (1 + 5)  # an order and five steps an epoch
    assert len(set(seeds)) == len(seeds)


def test_a_step_of_sgd_by_hand(make_trainer, make_model):
    """θ − η ∂L/∂θ, then the unit ball; DistMult's gradient of Σ log(1 + exp(−y f)) written out."""
    model = make_model("distmult")
    trainer = make_trainer(
        model, optimizer=Optimizer(name="sgd"), epochs=1, batch_size=100, negatives=Negatives(count=2)
    )
    entities, relations = (x.detach().double().numpy().copy() for x in (model.entities, model.relations))
    seen = []
    real = model.score_triples

    def spy(*ids):
        seen.append(torch.stack(torch.broadcast_tensors(*ids), -1).numpy())
        return real(*ids)

    model.score_triples = spy
    train(trainer)
    (scored,) = seen  # (30, 3, 3): the true triple and two corrupted ones
    to_entities, to_relations = np.zeros_like(entities), np.zeros_like(relations)
    for row in scored:
        for sign, (h, r, t) in zip((1, -1, -1), row, strict=True):
            f = (entities[h] * relations[r] * entities[t]).sum()
            slope = -sign / (1 + np.exp(sign * f))
            to_entities[h] += slope * relations[r] * entities[t]
            to_relations[r] += slope * entities[h] * entities[t]
            to_entities[t] += slope * entities[h] * relations[r]
    np.testing.assert_allclose(model.entities.detach(), entities - 0.05 * to_entities, atol=1e-6)
    np.testing.assert_allclose(model.relations.detach(), relations - 0.05 * to_relations, atol=1e-6)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_descent_on_touched_rows_is_descent(make_trainer, make_model, monkeypatch, reduction):
    """TransE's quick step against autograd, a dense optimiser and a constraint on the whole table."""
    options = {
        "loss": Loss(name="margin", margin=2.0, reduction=reduction),
        "negatives": Negatives(count=3),
        "optimizer": Optimizer(name="sgd", schedule="cosine"),
        "epochs": 3,
    }
    quick = make_trainer(make_model("transe", dim=17), **options)
    assert quick.learner.quick_step is not None
    records, weights = train(quick)
    monkeypatch.setattr("capse.training.learner.row_step", lambda *_, **__: None)
    plain = make_model("transe", dim=17)
    plain.constrain()
    plain_records, plain_weights = train(make_trainer(plain, **options))
    for name, tensor in plain_weights.items():
        torch.testing.assert_close(weights[name], tensor, atol=1e-6, rtol=1e-5)
    for record, plain_record in zip(records, plain_records, strict=True):
        assert record["loss"] == pytest.approx(plain_record["loss"], rel=1e-5)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ({"name": "distmult"}, {}),
        ({"name": "transe", "norm": 2}, {}),
        ({"name": "transe"}, {"loss": Loss(name="softplus")}),
        ({"name": "transe"}, {"optimizer": Optimizer(name="sgd", embedding_decay=0.1)}),
        ({"name": "transe"}, {"optimizer": Optimizer(name="adam")}),
        ({"name": "transe"}, {"negatives": Negatives(sampler="shared", count=3)}),
    ],
)
def test_every_other_training_takes_the_general_step(make_trainer, make_model, model, options):
    options = {"loss": Loss(name="margin"), "optimizer": Optimizer(name="sgd"), **options}
    assert make_trainer(make_model(**model), **options).learner.quick_step is None


def test_constraints_hold_after_every_step(make_trainer, make_model):
    model = make_model("transe")
    lengths = []
    trainer = make_trainer(
        model,
        learning_rate=5.0,
        loss=Loss(name="margin", margin=9),
        on_step=lambda report: lengths.append(float(model.entities.detach().norm(dim=1).max())),
    )
    train(trainer)
    assert len(lengths) == 10
    assert max(lengths) <= 1 + 1e-6


@pytest.mark.parametrize("name", ["adam", "adamw", "adagrad", "sgd"])
def test_what_a_model_keeps_beside_its_table_does_not_go_stale(make_trainer, make_model, name):
    """Entities with equal vectors are scored once when ranking; fused optimisers change tables without a trace."""
    model = make_model("distmult")
    with torch.no_grad():
        model.entities[10:] = 0.5  # two equal rows that no triple uses

    def validate():
        with torch.no_grad():
            found = model.score_tails(torch.tensor([0]), torch.tensor([0]))[0]
            expected = (model.entities[0] * model.relations[0]) @ model.entities.T
        torch.testing.assert_close(found, expected)
        return 0.0, {}

    used = torch.arange(10)
    trainer = make_trainer(
        model, optimizer=Optimizer(name=name), validation=Validation(every=1), validate=validate,
        epochs=3, learning_rate=0.5, negatives=Negatives(sampler="uniform"),
    )  # fmt: skip
    corruptor = trainer.learner.objective.corruptor
    corruptor._draw = lambda count, generator: used[torch.randint(10, (count,), generator=generator)]
    train(trainer)
    assert torch.equal(model.entities[10], model.entities[11])


@pytest.mark.parametrize("sampler", ["bernoulli", "shared", "all"])
def test_seeds_fix_every_bit(make_trainer, make_model, sampler):
    loss = Loss(name="softmax")
    results = []
    for seed, disturb in ((1, False), (1, True), (2, False)):
        torch.rand(100 if disturb else 1)  # the state of torch's own generator must not matter
        model = make_model("convkb", filters=3, dropout=0.3)
        trainer = make_trainer(model, seed=seed, loss=loss, negatives=Negatives(sampler, count=3))
        results.append(train(trainer)[1])
    first, again, other = results
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["entities"], other["entities"])


def test_the_cosine_schedule_reaches_the_optimiser(make_trainer):
    rates = []
    trainer = make_trainer(optimizer=Optimizer(schedule="cosine"), epochs=4)
    trainer.on_step = lambda report: rates.append(trainer.learner.optimizer.param_groups[0]["lr"])
    records, _ = train(trainer)
    assert rates == pytest.approx([0.05 * (1 + math.cos(math.pi * i / 20)) / 2 for i in range(20)])
    assert [record["learning_rate"] for record in records] == rates[4::5]


@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
@pytest.mark.parametrize("name", ["distmult", "transe", "capse"])
def test_every_precision_trains(make_trainer, make_model, name, precision):
    model = make_model(name)
    records, state = train(make_trainer(model, precision=precision, epochs=3))
    assert all(math.isfinite(record["loss"]) for record in records)
    assert all(tensor.dtype == torch.float32 and torch.isfinite(tensor).all() for tensor in state.values())


@pytest.mark.parametrize("loss", ["softmax", "bce", "kl"])
def test_bf16_over_all_entities(make_trainer, loss):
    settings = {"loss": Loss(name=loss, smoothing=0.1), "negatives": Negatives("all")}
    exact, rough = (train(make_trainer(precision=p, epochs=1, **settings))[0][0]["loss"] for p in ("float32", "bf16"))
    assert rough == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_the_recorded_loss_is_per_example(make_trainer, reduction):
    """Whatever the reduction and however uneven the batches, the record holds the mean over an epoch's examples."""
    values = []
    trainer = make_trainer(loss=Loss(name="softmax", reduction=reduction), batch_size=8, epochs=1)
    compute = trainer.learner.compute

    def record(batch, generator):
        loss = compute(batch, generator)
        values.append(float(loss.detach()) * (len(batch) if reduction == "mean" else 1))
        return loss

    trainer.learner.compute = record
    (found,), _ = train(trainer)
    assert found["loss"] == pytest.approx(sum(values) / 30)


def test_records_have_what_a_reader_needs(make_trainer):
    validation = Validation(every=2)
    records, _ = train(make_trainer(epochs=5, validation=validation, validate=lambda: (0.5, {"some": "thing"})))
    assert [record["epoch"] for record in records] == [1, 2, 3, 4, 5]
    assert [record["epoch"] for record in records if "validation" in record] == [2, 4, 5]  # the last one too
    assert records[1]["validation"] == {"some": "thing"}
    assert records[4]["best_epoch"] == 2  # an equal value is no gain
    assert all(record["examples_per_second"] > 0 for record in records)


def test_validation_sees_the_model_in_evaluation_mode_and_training_goes_on_in_its_own(make_trainer, make_model):
    model = make_model("convkb", filters=3, dropout=0.5)
    modes = []

    def validate():
        modes.append(model.scorer.dropout.training)
        return 0.0, {}

    trainer = make_trainer(model, validation=Validation(every=1), validate=validate, epochs=3)
    trainer.on_step = lambda report: modes.append(model.scorer.dropout.training)
    train(trainer)
    assert modes == 3 * (5 * [True] + [False])


@pytest.mark.parametrize("patience", [0, 1, 2])
def test_early_stopping_and_the_best_weights(make_trainer, patience):
    values = [0.1, 0.3, 0.2, 0.25, 0.4, 0.1, 0.1, 0.1]
    weights = []
    trainer = make_trainer(epochs=8, validation=Validation(every=1, patience=patience))

    def validate():
        weights.append(trainer.learner.objective.model.entities.detach().clone())
        return values[len(weights) - 1], {}

    trainer.validate = validate
    records, _ = train(trainer)
    assert len(records) == {0: 8, 1: 3, 2: 4}[patience]
    best = {0: 5, 1: 2, 2: 2}[patience]
    assert trainer.position.best_epoch == best
    trainer.restore_best()
    assert torch.equal(trainer.learner.objective.model.entities, weights[best - 1])


def test_no_epochs_leave_the_model_as_it_was(make_trainer, make_model):
    model = make_model()
    before = model.entities.detach().clone()
    records, _ = train(make_trainer(model, epochs=0, validation=Validation(every=1), validate=lambda: (0, {})))
    assert records == []
    assert torch.equal(model.entities, before)


def test_a_loss_that_is_not_finite_stops_the_training(make_trainer, make_model):
    model = make_model()
    trainer = make_trainer(model, optimizer=Optimizer(name="sgd"), learning_rate=1e30)
    with pytest.raises(
        RunError, match=r"the loss became (nan|inf) in epoch 1, step [23]: lower training\.learning_rate"
    ):
        train(trainer)
    assert not trainer.checkpoints.last.exists()


def test_descent_on_touched_rows_says_when_it_diverges(make_trainer, make_model):
    options = {"optimizer": Optimizer(name="sgd"), "loss": Loss(name="margin"), "learning_rate": 1e39}
    trainer = make_trainer(make_model("transe", unit_ball=False), **options)
    assert trainer.learner.quick_step is not None
    with pytest.raises(RunError, match=r"the loss became (nan|inf)"):
        train(trainer)


def test_checkpoints_of_other_settings_are_refused(make_trainer):
    train(make_trainer(fingerprint="a"))
    with pytest.raises(RunError, match="belongs to other data or other settings"):
        make_trainer(fingerprint="b").resume()


def test_checkpoints_of_another_model_are_refused(make_trainer, make_model):
    train(make_trainer(make_model("transe")))
    with pytest.raises(RunError, match="does not fit this model"):
        make_trainer(make_model("complex")).resume()


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (Training, {"epochs": -1}, r"training\.epochs is -1: choose 0 \(an untrained run\) or more"),
        (Training, {"batch_size": 0}, r"training\.batch_size is 0"),
        (Training, {"learning_rate": 0.0}, r"training\.learning_rate is 0"),
        (Training, {"seed": -1}, r"training\.seed is -1"),
        (Training, {"seed": 2**63}, r"training\.seed is"),
        (Validation, {"every": -1}, r"validation\.every is -1"),
        (Validation, {"patience": -1}, r"validation\.patience is -1"),
        (Validation, {"triples": -1}, r"validation\.triples is -1"),
    ],
)
def test_senseless_settings(kind, settings, message):
    with pytest.raises(SettingsError, match=message):
        kind(**settings)
