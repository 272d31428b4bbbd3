"""Steps recorded as CUDA graphs: what is drawn for them here, and on a GPU that they are the plain steps."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch

from capse.errors import RunError
from capse.training import cuda_graphs
from capse.training.adversarial_step import AdversarialStep
from capse.training.adversary import Adversary, build_adversarial
from capse.training.batches import Epoch
from capse.training.cuda_graphs import DrawnBlock, GraphStep, graph_step
from capse.training.losses import Loss
from capse.training.negatives import Negatives
from capse.training.objectives import build_objective
from capse.training.optimizers import Optimizer
from capse.training.regularizers import Regularizer

MODELS: dict[str, dict[str, Any]] = {
    "transe": {"name": "transe"},
    "convkb": {"name": "convkb", "filters": 5},
    "capse": {"name": "capse", "filters": 5, "capsule_dim": 3},
    "capse, released": {"name": "capse", "filters": 5, "capsule_dim": 3, "variant": "released"},
    "capse, routed": {"name": "capse", "filters": 5, "capsule_dim": 3, "routing": 3},
}
TWO = "two models"
KBGAN: dict[str, dict[str, Any]] = {"transd": {"bounded": "all"}, "distmult": {}}
DROPPING = {"name": "capse", "filters": 5, "capsule_dim": 3, "dropout": 0.1}
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@pytest.fixture
def make_trainer(make_model, triples, trainer_of, adversarial_trainer_of):
    def make(model="transe", *, device="cpu", sampler="bernoulli", optimizer=None, regularizer=None, **settings):
        loss, negatives = settings.pop("loss", Loss()), Negatives(sampler, count=settings.pop("count", 2))
        parts = loss, negatives, regularizer or Regularizer()
        settings = {"epochs": 12, "batch_size": 4, "learning_rate": 0.01, **settings}
        if model == TWO:
            return adversarial_trainer_of(device, optimizer, *parts, **settings)
        model = make_model(**{"name": model, **MODELS.get(model, {})}).to(device)
        return trainer_of(build_objective(model, triples, *parts), optimizer, **settings)

    return make


@pytest.fixture
def adversarial_trainer_of(make_model, triples, trainer_of):
    def make(device, optimizer, loss, negatives, regularizer, **settings):
        adversary = Adversary(candidates=5, learning_rate=0.02, embedding_decay=0.1)
        model, generator = (make_model(name, seed=n, **more).to(device) for n, (name, more) in enumerate(KBGAN.items()))
        objective = build_adversarial(model, generator, triples, adversary, loss, negatives, regularizer)
        return trainer_of(objective, optimizer, adversary=adversary, **settings)

    return make


def train(trainer):
    losses = [record["loss"] for record in trainer.run()]
    return losses, {name: x.clone() for name, x in trainer.learner.state_dict().items()}


@pytest.fixture
def block(make_trainer, monkeypatch):
    """30 triples in 7 steps of 4 or 5, with blocks of 3 steps."""
    monkeypatch.setattr(cuda_graphs, "BLOCK", 3)
    objective = make_trainer().learner.objective
    order = torch.randperm(30, generator=torch.Generator().manual_seed(5))
    return objective, Epoch(2, 7, 11, objective.examples, order)


def test_a_block_has_every_true_triple_of_its_steps_in_order(block):
    objective, epoch = block
    drawn = DrawnBlock(objective)
    versions = [drawn.rows_of(epoch, step) for step in range(7)]
    assert [len(rows) for rows in versions] == [4, 4, 4, 5, 4, 4, 5]
    for step, rows in enumerate(versions):
        assert torch.equal(rows[:, [0, 3, 4]], epoch.batch(step))
    assert torch.equal(torch.cat(versions)[:, [0, 3, 4]], epoch.examples[epoch.order])


def test_a_block_has_one_side_of_each_triple_replaced_by_what_is_false(block):
    objective, epoch = block
    drawn = DrawnBlock(objective)
    known = set(map(tuple, objective.examples[:].tolist()))
    for step in range(7):
        for h, h1, h2, r, t, t1, t2 in drawn.rows_of(epoch, step).tolist():
            assert all((h == a) + (t == b) == 1 for a, b in ((h1, t1), (h2, t2)))
            assert not {(h1, r, t1), (h2, r, t2)} & known


def test_a_block_entered_in_the_middle_is_the_same(block):
    objective, epoch = block
    whole = DrawnBlock(objective)
    for step in range(7):
        assert torch.equal(whole.rows_of(epoch, step), DrawnBlock(objective).rows_of(epoch, step))


def test_a_block_is_drawn_once_and_each_one_from_numbers_of_its_own(block, monkeypatch):
    objective, epoch = block
    seeds = []
    real = objective.versions
    monkeypatch.setattr(objective, "versions", lambda b, g: (seeds.append(g.initial_seed()), real(b, g))[1])
    drawn = DrawnBlock(objective)
    for number in (2, 3):
        other = Epoch(number, epoch.steps, epoch.seed, epoch.examples, epoch.order)
        for step in range(7):
            drawn.rows_of(other, step)
    assert len(seeds) == len(set(seeds)) == 2 * 3


def test_not_used_on_a_cpu(make_trainer):
    trainer = make_trainer()
    assert trainer.learner.quick_step is None
    assert graph_step(trainer.learner.objective, Optimizer(), trainer.learner.rate_factors, batch_size=4) is None


class Still:
    """In place of a stream, where there is none."""

    def __init__(self, *_):
        pass

    def wait_stream(self, other):
        pass


@pytest.fixture
def without_streams(monkeypatch):
    for name in ("Stream", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, Still)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())


@pytest.mark.parametrize("model", [*MODELS, TWO])
@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_a_step_that_cannot_be_recorded_is_launched(make_trainer, without_streams, monkeypatch, model, name):
    """With the weights of a plain optimiser on the same triples, one warning, and a rate that follows the schedule."""
    settings = {"optimizer": Optimizer(name, schedule="cosine"), "regularizer": Regularizer(l2=0.1)}
    trainer = make_trainer(model, **settings)
    trainer.learner.quick_step = GraphStep(trainer.learner.objective, trainer.learner.rate_factors)
    monkeypatch.setattr(trainer.learner.quick_step, "_record", fail)
    with pytest.warns(UserWarning, match=r"training goes on slowly: a step could not be recorded \(no GPU\)") as heard:
        losses, tensors = train(trainer)
    assert len(heard) == 1

    plain = make_trainer(model, **settings)
    plain.learner.quick_step = None
    drawn, epochs = DrawnBlock(plain.learner.objective), []
    real = plain._epoch
    monkeypatch.setattr(plain, "_epoch", lambda number: (epochs.append(real(number)), epochs[-1])[1])

    def versions(batch, generator):
        rows = drawn.rows_of(epochs[-1], plain.position.step)
        return rows[:, :3], rows[:, 3], rows[:, 4:]

    if model == TWO:
        monkeypatch.setattr(plain.learner.objective, "rows", lambda *_: drawn.rows_of(epochs[-1], plain.position.step))
    else:
        monkeypatch.setattr(plain.learner.objective, "versions", versions)
    drawn.objective = trainer.learner.objective
    expected_losses, expected = train(plain)
    assert losses == pytest.approx(expected_losses, rel=1e-5)
    assert tensors.keys() == expected.keys()
    for key, tensor in tensors.items():
        torch.testing.assert_close(tensor, expected[key], rtol=1e-4, atol=1e-5)


def fail(versions):
    raise RuntimeError("no GPU")


def test_dropout_is_found_out(make_model):
    """A replay would not draw it from the step's seed."""
    assert cuda_graphs._drops_out(make_model(**DROPPING))
    assert not any(cuda_graphs._drops_out(make_model(**model)) for model in MODELS.values())


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": Optimizer("adagrad")},
        {"precision": "bf16"},
        {"sampler": "shared"},
        {"batch_size": cuda_graphs.MOST_TRIPLES},
    ],
    ids=lambda changes: next(iter(changes)),
)
@on_gpu
def test_not_used_where_it_does_not_fit(make_trainer, changes):
    assert isinstance(make_trainer(device="cuda").learner.quick_step, GraphStep)
    assert make_trainer(device="cuda", **changes).learner.quick_step is None


@on_gpu
@pytest.mark.parametrize("model", [*MODELS, TWO])
@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_replayed_steps_are_the_launched_ones(make_trainer, model, name):
    """Batches of two sizes, a rate that changes at every step, and penalties."""
    settings = {"optimizer": Optimizer(name, schedule="cosine"), "regularizer": Regularizer(l2=0.1)}
    replayed = make_trainer(model, device="cuda", **settings)
    losses, tensors = train(replayed)
    assert replayed.learner.quick_step.recordings.keys() == {3, 4}
    launched = make_trainer(model, device="cuda", **settings)
    launched.learner.quick_step.records = False
    expected_losses, expected = train(launched)
    assert losses == pytest.approx(expected_losses, rel=1e-4)
    for key, tensor in tensors.items():
        torch.testing.assert_close(tensor, expected[key], rtol=1e-3, atol=1e-5)


@on_gpu
@pytest.mark.parametrize("model", [*MODELS, TWO])
def test_a_run_resumed_inside_a_block_goes_on_as_it_would_have(make_trainer, model):
    _, expected = train(make_trainer(model, device="cuda"))
    first = make_trainer(model, device="cuda")
    left = 29  # three epochs of 8 steps, and five

    def stop(report):
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt

    first.on_step = stop
    with pytest.raises(KeyboardInterrupt):
        train(first)
    second = make_trainer(model, device="cuda")
    second.resume()
    assert (second.position.epoch, second.position.step) == (3, 5)
    _, tensors = train(second)
    for key, tensor in tensors.items():
        torch.testing.assert_close(tensor, expected[key], rtol=1e-4, atol=1e-6)


@on_gpu
def test_what_was_recorded_before_a_checkpoint_was_loaded_is_not_used(make_trainer):
    _, expected = train(make_trainer("capse", device="cuda"))
    trainer = make_trainer("capse", device="cuda")
    epochs = trainer.run()
    for _ in range(4):
        next(epochs)
    epochs.close()  # which writes a checkpoint
    assert trainer.learner.quick_step.recordings
    torch.nn.init.zeros_(trainer.learner.objective.model.entities)
    trainer.resume()
    assert not trainer.learner.quick_step.recordings
    _, tensors = train(trainer)
    for key, tensor in tensors.items():
        torch.testing.assert_close(tensor, expected[key], rtol=1e-4, atol=1e-6)


@on_gpu
def test_a_loss_that_is_not_finite_is_found(make_trainer):
    trainer = make_trainer("convkb", device="cuda", optimizer=Optimizer("sgd"), learning_rate=1e30)
    with pytest.raises(RunError, match=r"the loss became (nan|inf) in epoch"):
        train(trainer)


@on_gpu
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_two_models_in_kernels_of_our_own_are_replayed(make_trainer, monkeypatch, reduction):
    """DistMult against TransD: replayed, launched one by one, and by torch."""
    pytest.importorskip("triton")
    settings = {"loss": Loss("margin", margin=3.0, reduction=reduction), "count": 1, "device": "cuda"}
    replayed = make_trainer(TWO, **settings)
    assert isinstance(replayed.learner.quick_step.work, AdversarialStep)
    losses, tensors = train(replayed)
    assert replayed.learner.quick_step.recordings.keys() == {3, 4}
    launched = make_trainer(TWO, **settings)
    launched.learner.quick_step.records = False
    monkeypatch.setenv("CAPSE_KERNEL", "reference")
    by_torch = make_trainer(TWO, **settings)
    assert not isinstance(by_torch.learner.quick_step.work, AdversarialStep)
    for other in (launched, by_torch):
        expected_losses, expected = train(other)
        assert losses == pytest.approx(expected_losses, rel=1e-4)
        for key, tensor in tensors.items():
            torch.testing.assert_close(tensor, expected[key], rtol=1e-3, atol=1e-5)
