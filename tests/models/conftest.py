"""Every registered model, in each of its forms, on a graph that is small enough to enumerate.

A new model needs an entry in `CASES`; `test_registry.py` fails until it has one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from capse.models import TripleModel, build_model, scorer_class

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
        settings = scorer_class(self.name).Settings(**{"reciprocal": False, **self.settings, **changes})
        return build_model(self.name, settings, entities, relations, seed)


_SIZES = ("dim", "filters", "capsule_dim", "height")
_CAPSE = {"dim": 6, "filters": 4, "capsule_dim": 3}

CASES = (
    *(
        Case("capse", {**_CAPSE, "variant": variant, "routing": routing, "readout": readout})
        for variant in ("paper", "released")
        for routing in (1, 3)
        for readout in ("length", "sigmoid")
    ),
    Case("convkb", {"dim": 6, "filters": 4}),
    *(Case("conve", {"dim": 12, "height": 3, "filters": 2, "kernel": kernel}) for kernel in (2, 3)),
    *(
        Case(name, {"dim": 5, "norm": norm})
        for name in ("transe", "transh", "transr", "transd", "stranse")
        for norm in (1, 2)
    ),
    Case("distmult", {"dim": 7}),
    Case("complex", {"dim": 4}),
)


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
