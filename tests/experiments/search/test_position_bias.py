"""Clicks count for their inverse propensity in training: exactly, and where validation decides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml

from capse.cli import main
from capse.errors import SettingsError
from capse.experiments.search.choice import Choice
from capse.experiments.search.fit import fit_search
from capse.experiments.search.recipe import load_search_recipe
from capse.models import model_settings
from capse.search.bias.settings import PositionBias
from capse.search.features.feature_table import FeatureTable
from capse.search.logs.simulation import SimulationSettings, simulate
from capse.search.rankers.lambdamart import LabelledLists
from capse.search.rankers.search_run import personal_model
from capse.training.list_objective import ListObjective, Lists, Shown
from capse.training.losses import Loss


def test_each_click_becomes_a_list_of_its_weight():
    features = FeatureTable.of({"place": np.arange(5.0)}, 5)
    lists = LabelledLists(features, np.array([True, False, True, False, True]), np.array([3, 2]))
    found = lists.per_click(np.array([1.0, 9, 4, 9, 2]))
    assert found.features.values[:, 0].tolist() == [0, 1, 2, 0, 1, 2, 3, 4]
    assert found.relevant.tolist() == [True, False, False, False, False, True, False, True]
    assert found.lengths.tolist() == [3, 3, 2]
    assert found.weights is not None
    assert found.weights.tolist() == [1, 4, 2]
    scores = np.array([3.0, 2, 1, 3, 2, 1, 1, 2])
    assert found.mrr(scores) == pytest.approx((1 * 1 + 4 / 3 + 2 * 1) / 7)


def test_in_the_list_of_one_click_the_other_is_worth_nothing():
    features = FeatureTable.of({"place": np.arange(4.0)}, 4)
    worth = np.array([1.0, -1.0, 3.0, 0.5])
    lists = LabelledLists(features, np.array([True, False, True, False]), np.array([4]), gains=worth)
    found = lists.per_click(np.ones(4)).gains
    assert found is not None
    assert found.tolist() == [1, -1, 0, 0.5, 0, -1, 3, 0.5]


def test_two_relevant_results_pull_alike_however_deep_one_stands():
    """Of pairs of relevant results, one looked at always and the other a fifth of the time, by their weights."""
    draw, looked = np.random.default_rng(0), np.array([1.0, 0.2])
    clicked = (draw.random((20_000, 2)) < 0.9 * looked).ravel()
    lists = LabelledLists(FeatureTable.of({}, len(clicked)), clicked, np.full(20_000, 2))
    found = lists.per_click(np.tile(1 / looked, 20_000))
    assert found.weights is not None
    first = found.relevant.reshape(-1, 2)[:, 0]
    assert found.weights[first].sum() == pytest.approx(found.weights[~first].sum(), rel=0.03)


def objective(relevant: list[list[bool]], weights: list[list[float]] | None, loss: str = "softmax") -> ListObjective:
    draw = torch.Generator().manual_seed(0)
    count, shown = len(relevant), len(relevant[0])
    lists = Lists(
        queries=torch.ones(count, 4),
        profiles=torch.ones(count, 4),
        users=torch.full((count,), -1),
        documents=torch.arange(shown).repeat(count, 1),
        relevant=torch.tensor(relevant),
        vectors=torch.randn(shown, 4, generator=draw),
        weights=None if weights is None else torch.tensor(weights),
    )
    model = personal_model(model_settings({"name": "transe", "dim": 4}), 0, 4, seed=0)
    return ListObjective(model, lists, Loss(name=loss, reduction="sum"), Shown())


@pytest.mark.parametrize("loss", ["softmax", "margin"])
def test_a_weight_of_two_is_the_click_twice(loss):
    once, twice = [[True, False, False]], [[True, False, False]] * 2
    draw = torch.Generator()
    weighted = objective(once, [[2.0, 7.0, 7.0]], loss)(torch.tensor([0]), draw)
    assert weighted.item() == pytest.approx(objective(twice, None, loss)(torch.tensor([0, 1]), draw).item())


def test_a_loss_without_a_term_for_each_click_is_refused():
    with pytest.raises(
        SettingsError, match=r"loss\.name is 'softplus', and clicks have weights: choose softmax or margin"
    ):
        objective([[True, False]], [[1.0, 1.0]], "softplus")


def test_propensities_of_one_change_nothing():
    """As long as validation counts clicks as it counts lists: where each has one."""
    log = simulate(SimulationSettings(users=5, documents=60, impressions=120)).log
    recipe = load_search_recipe("transe")
    recipe = replace(
        recipe, training=replace(recipe.training, epochs=2), validation=replace(recipe.validation, every=0)
    )
    plain, given = (fit_search(log, replace(recipe, bias=PositionBias(bias))) for bias in ("none", "1"))
    for one, other in zip(plain.model.parameters(), given.model.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_trees_are_trained_and_recorded_with_it(tmp_path):
    simulate(SimulationSettings(users=5, documents=40, impressions=100)).write_jsonl(tmp_path / "raw")
    arguments = ["--log", str(tmp_path / "raw"), "--out", str(tmp_path / "run"), "--method", "sp"]
    with pytest.raises(SystemExit) as exit:
        main(["search", "train", *arguments, "--set", "bias.model=1,0.5,0.3", "--set", "bias.clip=3"])
    assert exit.value.code in (None, 0)
    said = yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())
    assert said["bias"] == {"model": "1,0.5,0.3", "clip": 3.0}
    assert Choice("sp", run=tmp_path / "run").to_train().resolved.bias == PositionBias("1,0.5,0.3", 3.0)
