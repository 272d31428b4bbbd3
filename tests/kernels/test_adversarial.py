"""The fused step of adversarial training, compared with torch's. Without a GPU Triton runs in its interpreter."""

from __future__ import annotations

import os
from copy import deepcopy
from unittest.mock import patch

import numpy as np
import pytest
import torch

from capse.kernels.scoring import INSTALLED, Kernel, forced, wanted_kernel
from capse.models import build_model, model_settings
from capse.training.adversarial_learner import AdversarialLearner
from capse.training.adversarial_step import AdversarialStep
from capse.training.adversary import Adversary, build_adversarial
from capse.training.batches import Epoch
from capse.training.losses import Loss
from capse.training.negatives import Negatives
from capse.training.optimizers import Optimizer, build_optimizer
from capse.training.regularizers import Regularizer
from capse.training.settings import Training
from capse.training.steps import descend

INTERPRET = {} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}
if INSTALLED["triton"]:
    with patch.dict(os.environ, INTERPRET):  # read when triton is imported, and again when it runs
        from capse.kernels.gpu import adversarial  # noqa: F401  where the interpreter is asked for

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the interpreter's, of lanes that are masked
ENTITIES, RELATIONS = 40, 3
TRANSE, TRANSD = {"name": "transe", "dim": 6}, {"name": "transd", "dim": 5}


@pytest.fixture(params=["cpu", "gpu"])
def device(request):
    """Where the models lie for the kernels that are tested."""
    if request.param == "gpu" and not INSTALLED["triton"]:
        pytest.skip("there is no Triton")
    with forced(request.param), patch.dict(os.environ, INTERPRET):
        yield "cuda" if request.param == "gpu" and torch.cuda.is_available() else "cpu"


def make(model, device, *, reduction="sum", filtered=False, margin=3.0, decay=0.05):
    """An objective with random tables, its optimisers, and numbers drawn for steps of it."""
    triples = np.random.default_rng(0).integers((ENTITIES, RELATIONS, ENTITIES), size=(60, 3))
    models = [
        build_model(model_settings({"vector_start": start, **section}), ENTITIES, RELATIONS, seed).to(device)
        for seed, (section, start) in enumerate(((model, "sphere"), ({"name": "distmult", "dim": 7}, "normal")))
    ]
    loss, negatives = Loss("margin", margin=margin, reduction=reduction), Negatives("uniform", filtered=filtered)
    objective = build_adversarial(
        models[0], models[1], triples, Adversary(candidates=5), loss, negatives, Regularizer()
    )
    objective.baseline.value.fill_(-1.5)
    settings = Optimizer("adam"), Optimizer("adam", embedding_decay=decay)
    optimizers = tuple(build_optimizer(each, *pair) for each, pair in zip(settings, zip(models, (0.01, 0.03))))  # noqa: B905
    draws = torch.Generator(device).manual_seed(1)
    return objective, optimizers, [objective.rows(objective.examples[i : i + 12], draws) for i in (0, 12, 24, 36)]


def state(objective, optimizers):
    tensors = dict(objective.state_dict())
    for place, optimizer in enumerate(optimizers):
        for number, values in optimizer.state_dict()["state"].items():
            tensors |= {f"{place}.{number}.{key}": value for key, value in values.items()}
    return tensors


@pytest.mark.parametrize("bounded", ["entities", "all"])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize(("model", "filtered"), [(TRANSE, False), (TRANSD, True)], ids=["transe", "transd"])
def test_steps_are_those_of_torch(device, model, reduction, bounded, filtered):
    """Losses, rewards, both models' tables and Adam's state, after steps in which rows meet and moments drift."""
    settings = {"reduction": reduction, "filtered": filtered, "margin": 1.5}
    model = {**model, "bounded": bounded}
    objective, optimizers, draws = make(model, device, **settings)
    ours, others, _ = make(model, device, **settings)
    step = AdversarialStep(ours, others)
    for rows in draws:
        expected = descend(objective, optimizers, rows)
        torch.testing.assert_close(step(rows), expected, rtol=1e-5, atol=1e-5)
    wanted = state(objective, optimizers)
    found = state(ours, others)
    assert found.keys() == wanted.keys()
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, wanted[name], rtol=2e-4, atol=2e-6, msg=name)
    assert any(length > 0.999 for length in ours.model.entities.detach()[:, : model["dim"]].norm(dim=1))


def test_it_goes_on_from_a_state_that_was_loaded(device):
    objective, optimizers, draws = make(TRANSD, device)
    step = AdversarialStep(objective, optimizers)
    step(draws[0])
    other, others, _ = make(TRANSD, device)
    other.load_state_dict(objective.state_dict())
    for mine, theirs in zip(others, optimizers, strict=True):
        mine.load_state_dict(deepcopy(theirs.state_dict()))
    again = AdversarialStep(other, others)
    for rows in draws[1:]:
        torch.testing.assert_close(again(rows), step(rows))
    for name, tensor in state(other, others).items():
        torch.testing.assert_close(tensor, state(objective, optimizers)[name])


@pytest.mark.parametrize(
    "changes",
    [
        {"model": {"name": "transe", "dim": 4, "norm": 2}},
        {"model": {"name": "transh", "dim": 4}},
        {"model": {**TRANSE, "self_loops": True}},
        {},
    ],
    ids=["L2", "another model", "self-loops", "fit"],
)
def test_it_takes_what_it_is_made_for(device, changes):
    objective, _, _ = make(changes.get("model", TRANSE), device)
    assert AdversarialStep.is_fit(objective, Optimizer("adam")) == (not changes)
    assert not AdversarialStep.is_fit(objective, Optimizer("sgd"))
    filtered, _, _ = make(TRANSE, device, filtered=True)
    assert AdversarialStep.is_fit(filtered, Optimizer("adam")) == (wanted_kernel() == "gpu")
    for name, value in (("regularizer", Regularizer(l2=0.1)), ("candidates", 1000), ("count", 2)):
        with patch.object(objective, name, value):
            assert not AdversarialStep.is_fit(objective, Optimizer("adam"))


def test_a_learner_takes_it_unless_the_reference_is_asked_for():
    """What it draws, loses and learns is the same to the last digits that float32 sums agree in."""
    found = []
    kernels: list[tuple[Kernel, bool]] = [("auto", True), ("reference", False)]
    for kernel, is_fit in kernels:
        with forced(kernel):
            objective, _, _ = make(TRANSE, "cpu")
            training = Training(batch_size=20, learning_rate=0.01)
            learner = AdversarialLearner(objective, training, Optimizer(), Adversary(learning_rate=0.03))
            assert isinstance(learner.work, AdversarialStep) == is_fit
            epoch = Epoch(0, 3, 0, objective.examples, torch.arange(60))
            losses = [float(learner.step(epoch, step, 0.01)) for step in range(3)]
            found.append((losses, learner.state_dict()))
    (losses, tensors), (expected_losses, expected) = found
    assert losses == pytest.approx(expected_losses, rel=1e-5)
    assert tensors.keys() == expected.keys()
    for name, tensor in tensors.items():
        torch.testing.assert_close(tensor, expected[name], rtol=2e-4, atol=2e-6, msg=name)
