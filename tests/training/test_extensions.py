"""Losses and penalties of another package: named in recipes and in errors like our own, and trained with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import capse
from capse.errors import SettingsError
from capse.graph.dataset import Graph
from capse.training.losses import LOSSES, Loss, SampledLoss, build_loss, names_of
from capse.training.regularizers import REGULARIZERS, Regularizer, penalty

FOCAL = '''
from dataclasses import dataclass

import torch
from torch.nn.functional import softplus

from capse.errors import SettingsError
from capse.training.losses import Loss, LossFunction


@dataclass(frozen=True)
class Focal(Loss):
    name: str = "focal"
    focus: float = 2.0

    def __post_init__(self):
        super().__post_init__()
        if self.focus < 0:
            raise SettingsError(f"loss.focus is {self.focus}", "choose 0 or more")


class FocalLoss(LossFunction):
    """(1 - p)^focus times -log p, p being how sure the model is of what is true (Lin et al., ICCV 2017)."""

    Settings = Focal

    def of_sampled(self, positive, negative):
        right = torch.cat([positive, -negative.flatten()])
        return torch.sigmoid(-right) ** self.settings.focus * softplus(-right)
'''

L1 = """
def l1(model, batch):
    heads, relations, tails = batch.unbind(1)
    vectors = model.entity(heads), model.relation(relations), model.entity(tails)
    return sum(vector.abs().sum() for vector in vectors) / len(batch)
"""


@pytest.fixture(autouse=True)
def installed(install_package: Callable[[str, str, str], None], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two packages, with a focal loss and an L1 penalty."""
    install_package("capse.losses", "focal = registered_focal:FocalLoss", FOCAL)
    install_package("capse.regularizers", "l1 = registered_l1:l1", L1)
    for registry in (LOSSES, REGULARIZERS):
        monkeypatch.setattr(registry, "_loaded", {})
        vars(registry).pop("outside", None)
    yield
    for registry in (LOSSES, REGULARIZERS):
        vars(registry).pop("outside", None)


def test_they_are_listed_like_our_own() -> None:
    assert list(LOSSES)[-1] == "focal"
    assert names_of(SampledLoss).endswith(", focal")
    with pytest.raises(SettingsError, match=r"loss\.name is 'focl': choose from softplus, .*, focal"):
        capse.Recipe.from_mapping({"loss": {"name": "focl"}})
    with pytest.raises(SettingsError, match=r"unknown setting 'regularizer\.l11': did you mean 'regularizer\.l1'"):
        capse.Recipe.from_mapping({"regularizer": {"l11": 1.0}})


def test_recipes_hold_their_settings() -> None:
    options = ["loss.name=focal", "loss.focus=3", "regularizer.l1=0.5"]
    recipe = capse.Recipe.resolve(model="distmult", overrides=[*options, "negatives.sampler=uniform"])
    values = recipe.to_mapping()
    assert (values["loss"]["focus"], values["regularizer"]["l1"]) == (3.0, 0.5)
    assert capse.Recipe.from_mapping(values) == recipe
    for section, wrong, message in (
        ("loss", {"name": "focal", "focus": -1}, r"loss\.focus is -1\.0: choose 0 or more"),
        ("loss", {"name": "margin", "focus": 1}, r"unknown setting 'loss\.focus'"),
        ("regularizer", {"l1": -1}, r"regularizer\.l1 is -1\.0: choose 0 or more"),
    ):
        with pytest.raises(SettingsError, match=message):
            capse.Recipe.from_mapping({section: wrong})


def test_their_numbers_are_the_formulas(make_model: Any) -> None:
    model, batch = make_model("distmult"), torch.tensor([[0, 1, 2], [3, 0, 3]])
    scores = np.array([1.5, -0.5, 2.0])
    settings: Any = Loss.settings_of("focal")
    loss: Any = build_loss(settings(focus=2.0))
    right = np.array([1.5, 0.5, -2.0])
    chance = 1 / (1 + np.exp(-right))
    found = loss.reduce(loss.of_sampled(torch.tensor(scores[:1]), torch.tensor(scores[None, 1:])))
    assert float(found) == pytest.approx(float(-((1 - chance) ** 2 * np.log(chance)).sum()))
    with torch.no_grad():
        strengths: Any = Regularizer.settings_of()
        found = penalty(strengths(l1=0.5), model, batch)
        vectors = [model.entities[[0, 3, 2, 3]], model.relations[[1, 0]]]
    assert float(found) == pytest.approx(0.5 / 2 * sum(float(v.abs().sum()) for v in vectors), rel=1e-6)


@pytest.mark.parametrize("options", [[], ["regularizer.l1=0.3"]])
def test_they_train(tmp_path: Path, options: list[str]) -> None:
    facts = [(f"e{i}", "next", f"e{(i + 1) % 8}") for i in range(8)]
    graph = Graph.from_triples(facts, facts[:2], facts[:2], name="ring")
    chosen = ["loss.name=focal", "negatives.sampler=uniform", "training.epochs=3", "model.dim=4", "training.device=cpu"]
    recipe = capse.Recipe.resolve(model="distmult", overrides=[*chosen, *options])
    run = capse.fit(graph, recipe, out=tmp_path / "run")
    losses = [record["loss"] for record in capse.RunFolder(tmp_path / "run").read_metrics()]
    assert len(losses) == 3
    assert losses[-1] < losses[0]
    assert run.evaluate("test").triples == 2
