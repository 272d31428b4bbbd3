"""Every registered model, in each of its forms, on a graph that is small enough to enumerate.

A model is tested with small sizes, and once more for each choice that its settings offer. One whose choices do not go
together as they come, or that has sizes of its own, says in `FORMS` what it is tested with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import torch

from capse.models import MODELS, TripleModel, build_model

ENTITIES, RELATIONS = 5, 3


@dataclass(frozen=True)
class Case:
    """A registered model and the settings that it is tested with."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return "-".join([self.name, *(f"{key}={value}" for key, value in self.settings.items() if key not in _SIZES)])

    def build(
        self, *, entities: int = ENTITIES, relations: int = RELATIONS, seed: int = 0, **changes: Any
    ) -> TripleModel:
        """A fresh model; ConvE's default of reciprocal relations is switched off unless asked for."""
        settings = MODELS[self.name].Settings(**{"reciprocal": False, **self.settings, **changes})
        return build_model(settings, entities, relations, seed)


_SIZES = {"dim": 6, "filters": 4, "capsule_dim": 3, "height": 3}

FORMS: dict[str, list[dict[str, Any]]] = {
    "capse": [
        {"variant": variant, "routing": routing, "readout": readout}
        for variant in ("paper", "released")
        for routing in (1, 3)
        for readout in ("length", "sigmoid")
    ],
    "scaled-capse": [
        {"routing": 1},
        {"routing": 3},
        {"filter_start": "distance"},
        {"filter_start": "product", "filters": 19, "distance_dims": 2},
    ],
    "complex-capse": [{}, {"distance_dims": 3}, {"distance_dims": 2, "threshold": 0}],
    "conve": [{"dim": 12, "filters": 2, "kernel": kernel} for kernel in (2, 3)],
}


def forms(name: str) -> list[dict[str, Any]]:
    """What a model is tested with: its defaults, and every other choice that it offers, one at a time."""
    if name in FORMS:
        return FORMS[name]
    hints = get_type_hints(MODELS[name].Settings)
    defaults = {field.name: field.default for field in dataclasses.fields(MODELS[name].Settings)}
    choices = {key: get_args(kind) for key, kind in hints.items() if get_origin(kind) is Literal}
    return [{}, *({key: option} for key, options in choices.items() for option in options if option != defaults[key])]


def small_sizes(name: str) -> dict[str, int]:
    known = {field.name for field in dataclasses.fields(MODELS[name].Settings)}
    return {key: size for key, size in _SIZES.items() if key in known}


CASES = tuple(Case(name, small_sizes(name) | form) for name in MODELS for form in forms(name))


def randomised(model: TripleModel, seed: int = 1) -> TripleModel:
    """The model in evaluation mode, every number of it random: no bias left at zero, no matrix at the identity."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if name.endswith("running_var"):
                tensor.uniform_(0.5, 1.5, generator=generator)
            elif tensor.is_floating_point():
                tensor.normal_(0, 0.7, generator=generator)
    return model.eval()


@pytest.fixture(autouse=True, scope="module")
def in_one_thread(one_thread: None) -> None:
    """Tensors this small are done before a second thread has woken up."""


@pytest.fixture(scope="session")
def all_cases() -> tuple[Case, ...]:
    return CASES


@pytest.fixture(params=CASES, ids=lambda case: case.id)
def case(request: pytest.FixtureRequest) -> Case:
    """One model in one form; a test that asks for it runs for all of them."""
    return request.param


@pytest.fixture
def make(case: Case) -> Callable[..., TripleModel]:
    """Builds the case's model with random parameters; keyword arguments change sizes, seed or settings."""
    return lambda **changes: randomised(case.build(**changes))


@pytest.fixture
def everything() -> torch.Tensor:
    """All 5 × 3 × 5 triples of the tiny graph, (75, 3)."""
    return torch.cartesian_prod(torch.arange(ENTITIES), torch.arange(RELATIONS), torch.arange(ENTITIES))
