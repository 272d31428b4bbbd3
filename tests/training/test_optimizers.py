"""Optimisers: one step computed by hand, decay rates that reach the right tensors, and the cosine schedule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from capse.errors import SettingsError
from capse.training.optimizers import Optimizer, build_optimizer, learning_rate_at

RATE = 0.1


def step_once(model, **settings):
    """Take one step along given gradients; returns the parameters before, the gradients and the parameters after."""
    optimizer = build_optimizer(Optimizer(**settings), model, RATE)
    before, gradients = {}, {}
    generator = torch.Generator().manual_seed(7)
    for name, parameter in model.named_parameters():
        before[name] = parameter.detach().numpy().copy()
        parameter.grad = torch.randn(parameter.shape, generator=generator)
        gradients[name] = parameter.grad.numpy().copy()
    optimizer.step()
    return before, gradients, {name: p.detach().numpy() for name, p in model.named_parameters()}


def expected_step(name, theta, gradient, decay):
    """The first step of each optimiser, from its definition."""
    if name == "adamw":  # decoupled (Loshchilov and Hutter, ICLR 2019)
        return theta - RATE * decay * theta - RATE * gradient / (np.abs(gradient) + 1e-8)
    gradient = gradient + decay * theta
    if name == "sgd":
        return theta - RATE * gradient
    if name == "adagrad":
        return theta - RATE * gradient / (np.abs(gradient) + 1e-10)
    return theta - RATE * gradient / (np.abs(gradient) + 1e-8)  # Adam: both corrected moments are g and g²


@pytest.mark.parametrize("name", ["sgd", "adagrad", "adam", "adamw"])
@pytest.mark.parametrize(("embedding_decay", "weight_decay"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.5), (0.3, 0.5)])
def test_the_first_step_by_hand(make_model, name, embedding_decay, weight_decay):
    model = make_model("convkb", filters=3)
    before, gradients, after = step_once(model, name=name, embedding_decay=embedding_decay, weight_decay=weight_decay)
    assert {"entities", "relations", "scorer.filters", "scorer.weights", "scorer.bias"} == set(after)
    for key, found in after.items():
        decay = weight_decay if key.startswith("scorer.") else embedding_decay
        np.testing.assert_allclose(found, expected_step(name, before[key], gradients[key], decay), rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("name", ["sgd", "adagrad", "adam", "adamw"])
def test_models_without_weights_of_their_own(make_model, name):
    before, _, after = step_once(make_model("transe"), name=name, weight_decay=0.5)
    assert all((before[key] != after[key]).all() for key in ("entities", "relations"))


def test_cosine_goes_from_the_rate_to_zero():
    cosine, constant = Optimizer(schedule="cosine"), Optimizer()
    found = [learning_rate_at(cosine, RATE, progress) for progress in (0, 0.25, 0.5, 1)]
    assert found == pytest.approx([RATE, RATE * (1 + math.sqrt(0.5)) / 2, RATE / 2, 0])
    assert [learning_rate_at(constant, RATE, progress) for progress in (0, 0.5, 1)] == [RATE] * 3


@pytest.mark.parametrize("key", ["embedding_decay", "weight_decay"])
def test_negative_decay_is_refused(key):
    settings: Any = {key: -1}
    with pytest.raises(SettingsError, match=rf"optimizer\.{key} is -1"):
        Optimizer(**settings)
