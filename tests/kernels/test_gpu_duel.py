"""Two models' step in Triton, held against torch's. Without a GPU it runs in Triton's interpreter."""

from __future__ import annotations

import os
from copy import deepcopy
from unittest.mock import patch

import numpy as np
import pytest
import torch

from capse.models import build_model, model_settings
from capse.training.adversary import Adversary, build_adversarial
from capse.training.duel_step import DuelStep
from capse.training.losses import Loss
from capse.training.negatives import Negatives
from capse.training.optimizers import Optimizer, build_optimizer
from capse.training.regularizers import Regularizer
from capse.training.steps import descend

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
INTERPRET = {} if DEVICE == "cuda" else {"TRITON_INTERPRET": "1"}
with patch.dict(os.environ, INTERPRET):  # read when triton is imported, and again when it runs
    pytest.importorskip("triton")
    from capse.kernels.gpu import duel  # noqa: F401  where the interpreter is asked for

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the interpreter's, of lanes that are masked
ENTITIES, RELATIONS = 40, 3
TRANSE, TRANSD = {"name": "transe", "dim": 6}, {"name": "transd", "dim": 5}


@pytest.fixture(scope="module", autouse=True)
def interpreter():
    with patch.dict(os.environ, INTERPRET):
        yield


def make(model, *, reduction="sum", filtered=False, margin=3.0, decay=0.05):
    """An objective with random tables, its optimisers, and numbers drawn for steps of it."""
    triples = np.random.default_rng(0).integers((ENTITIES, RELATIONS, ENTITIES), size=(60, 3))
    models = [
        build_model(model_settings({"vector_start": start, **section}), ENTITIES, RELATIONS, seed).to(DEVICE)
        for seed, (section, start) in enumerate(((model, "sphere"), ({"name": "distmult", "dim": 7}, "normal")))
    ]
    loss, negatives = Loss("margin", margin=margin, reduction=reduction), Negatives("uniform", filtered=filtered)
    objective = build_adversarial(
        models[0], models[1], triples, Adversary(candidates=5), loss, negatives, Regularizer()
    )
    objective.baseline.value.fill_(-1.5)
    settings = Optimizer("adam"), Optimizer("adam", embedding_decay=decay)
    optimizers = tuple(build_optimizer(each, *pair) for each, pair in zip(settings, zip(models, (0.01, 0.03))))  # noqa: B905
    draws = torch.Generator(DEVICE).manual_seed(1)
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
def test_steps_are_those_of_torch(model, reduction, bounded, filtered):
    """Losses, rewards, both models' tables and Adam's state, after steps in which rows meet and moments drift."""
    settings = {"reduction": reduction, "filtered": filtered, "margin": 1.5}
    model = {**model, "bounded": bounded}
    objective, optimizers, draws = make(model, **settings)
    ours, others, _ = make(model, **settings)
    step = DuelStep(ours, others)
    for rows in draws:
        expected = descend(objective, optimizers, rows)
        torch.testing.assert_close(step(rows), expected, rtol=1e-5, atol=1e-5)
    wanted = state(objective, optimizers)
    found = state(ours, others)
    assert found.keys() == wanted.keys()
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, wanted[name], rtol=2e-4, atol=2e-6, msg=name)
    assert any(length > 0.999 for length in ours.model.entities.detach()[:, : model["dim"]].norm(dim=1))


def test_it_goes_on_from_a_state_that_was_loaded():
    objective, optimizers, draws = make(TRANSD)
    step = DuelStep(objective, optimizers)
    step(draws[0])
    other, others, _ = make(TRANSD)
    other.load_state_dict(objective.state_dict())
    for mine, theirs in zip(others, optimizers, strict=True):
        mine.load_state_dict(deepcopy(theirs.state_dict()))
    again = DuelStep(other, others)
    for rows in draws[1:]:
        torch.testing.assert_close(again(rows), step(rows))
    for name, tensor in state(other, others).items():
        torch.testing.assert_close(tensor, state(objective, optimizers)[name])


@pytest.mark.parametrize(
    "changes",
    [{"model": {"name": "transe", "dim": 4, "norm": 2}}, {"model": {"name": "transh", "dim": 4}}, {}],
    ids=["L2", "another model", "fit"],
)
def test_it_takes_what_it_is_made_for(changes):
    objective, _, _ = make(changes.get("model", TRANSE))
    assert DuelStep.is_fit(objective, Optimizer("adam")) == (not changes)
    assert not DuelStep.is_fit(objective, Optimizer("sgd"))
    for name, value in (("regularizer", Regularizer(l2=0.1)), ("candidates", 1000), ("count", 2)):
        with patch.object(objective, name, value):
            assert not DuelStep.is_fit(objective, Optimizer("adam"))
