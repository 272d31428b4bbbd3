"""Grids: the order and the types of what is tried, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from capse.errors import SettingsError, UnknownNameError
from capse.experiments.grid import Range, load_grid
from tests.experiments.studies import DRAWN, RATES, quick


def test_the_last_key_changes_fastest():
    trials = load_grid(quick({"model.routing": [1, 3], "model.filters": [5, 6]}, recipe="capse")).trials()
    settings = [tuple(trial.settings.values()) for trial in trials]
    assert settings == [(1, 5), (1, 6), (3, 5), (3, 6)]
    assert [trial.number for trial in trials] == [0, 1, 2, 3]
    models: list[Any] = [trial.recipe.model for trial in trials]
    assert [(model.routing, model.filters) for model in models] == settings


def test_values_have_the_type_of_their_setting():
    """YAML 1.1 reads 1e-5 as text."""
    grid = load_grid(quick({"training.learning_rate": ["1e-5", 1], "training.batch_size": [16.0]}, set={}))
    assert grid.space == {"training.learning_rate": (1e-5, 1.0), "training.batch_size": (16,)}
    sizes: Any = grid.space["training.batch_size"]
    assert isinstance(sizes[0], int)


def test_a_resolved_grid_says_the_same(tmp_path):
    for grid in (
        load_grid(RATES, overrides=["start.run=2024"]),
        load_grid(DRAWN, search={"sampler": "tpe", "trials": 3}),
    ):
        path = tmp_path / "study.yaml"
        path.write_text(grid.to_yaml())
        assert load_grid(path) == grid


def test_an_option_has_the_last_word():
    grid = load_grid({**RATES, "metric": "tail.mr"}, overrides=["training.epochs=7"], search={"sampler": None})
    assert (grid.recipe.training.epochs, grid.metric, grid.minimised) == (7, "tail.mr", True)


def test_only_what_is_trained_must_have_epochs():
    """The recipe's own 0 epochs are replaced in every trial."""
    recipe = {"model": {"name": "transe"}, "training": {"epochs": 0}}
    assert load_grid({"recipe": recipe, "grid": {"training.epochs": [1, 2]}}).total == 2


def test_one_seed_may_draw_the_triples_to_validate_on():
    grid = load_grid(quick({"loss.margin": [1, 2]}, set={"validation.triples": 50, "training.seed": 3}))
    assert grid.recipe.validation.triples == 50


def test_without_a_recipe_that_of_the_model():
    grid = load_grid({"set": {"model.name": "transe"}, "grid": {"model.norm": [1, 2]}})
    assert (grid.recipe.model_name, grid.recipe.loss.name) == ("transe", "margin")


CASES = {
    "an unknown key": (quick({"model.dims": [1]}), "unknown setting 'model.dims': did you mean 'model.dim'?"),
    "an unknown section": (quick({"modell.dim": [1]}), "unknown setting 'modell': did you mean 'model'?"),
    "an unknown part": ({"recipes": "transe"}, "unknown setting 'recipes': did you mean 'recipe'?"),
    "one part": (quick({"epochs": [1]}), "cannot search 'epochs': settings have two parts"),
    "no grid": ({"recipe": "transe"}, "the grid is empty: write 'grid:'"),
    "an empty list": (quick({"model.dim": []}, set={}), "grid: model.dim is []: write a list"),
    "no list": (quick({"model.dim": 5}, set={}), "grid: model.dim is 5: write a list"),
    "a section that is a list": ({"grid": [1]}, "section 'grid' is [1]"),
    "a value of the wrong type": (
        quick({"training.batch_size": [4, "x"]}, set={}),
        "training.batch_size is 'x': write a whole",
    ),
    "a value that makes no sense": (quick({"training.epochs": [3, -1]}, set={}), "training.epochs is -1: choose 0"),
    "two of a kind": (quick({"training.learning_rate": [1, 1.0]}), "lists 1.0 twice"),
    "fixed and searched": (quick({"model.dim": [1]}), "model.dim is fixed and searched at once"),
    "two models": (quick({"model.name": ["transe", "transh"]}), "model.name cannot be searched: make a study"),
    "two metrics": (quick({"validation.metric": ["mr"]}), "validation.metric cannot be searched"),
    "an unknown metric": (quick({"loss.margin": [1]}, metric="mmr"), "validation.metric is 'mmr'"),
    "no validation": (quick({"loss.margin": [1]}, set={"validation.every": 0}), "validation.every is 0: trials are"),
    "no training": (quick({"loss.margin": [1]}, set={"training.epochs": 0}), "training.epochs is 0: trials are"),
    "no validation in one trial": (
        quick({"validation.every": [1, 0]}, set={}),
        "validation.every is 0: trials are compared on the validation set",
    ),
    "no training in one trial": (quick({"training.epochs": [0, 2]}, set={}), "training.epochs is 0: trials are"),
    "no training in any": (quick({"training.epochs": [0]}, set={}), "training.epochs is 0: trials are"),
    "no training at the end of a range": (
        quick({"training.epochs": {"low": 0, "high": 9}}, set={}, search={"sampler": "random", "trials": 2}),
        "training.epochs is 0: trials are",
    ),
    "seeds that draw other triples": (
        quick({"training.seed": [0, 1]}, set={"validation.triples": 50}),
        "training.seed is searched, and it draws the validation.triples: trials are compared on the same triples",
    ),
    "devices": (quick({"training.device": ["cpu", "cuda"]}, set={}), "training.device cannot be searched: it says"),
    "a record": (quick({"training.tensorboard": [True, False]}), "training.tensorboard cannot be searched: it changes"),
    "checkpoints": (quick({"training.checkpoint_seconds": [1, 2]}), "training.checkpoint_seconds cannot be searched"),
    "too many": (
        quick({f"training.{k}": list(range(1, 200)) for k in ("seed", "learning_rate", "epochs")}, set={}),
        "the grid has 7,880,599 trials: shorten it",
    ),
    "a range to enumerate": (quick({"loss.margin": {"low": 1, "high": 2}}), "loss.margin is a range: write a list"),
    "half a range": (quick({"loss.margin": {"low": 1}}), "the range of loss.margin has no 'high'"),
    "a range downwards": (quick({"loss.margin": {"low": 2, "high": 1}}), "is from 2.0 to 1.0: give a low"),
    "a logarithm of zero": (quick({"loss.margin": {"low": 0, "high": 1, "log": True}}), "begins at 0.0: with log"),
    "an unknown sampler": (
        quick({"loss.margin": [1]}, search={"sampler": "tpr"}),
        "search.sampler is 'tpr': choose from",
    ),
    "trials of a grid": (quick({"loss.margin": [1]}, search={"trials": 3}), "search.trials is given for a grid"),
    "no number of trials": (quick({"loss.margin": [1]}, search={"sampler": "tpe"}), "how many trials to draw with tpe"),
    "a recipe that is a number": ({"recipe": 5, "grid": {"model.dim": [1]}}, "recipe is 5: write a shipped name"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_said(case):
    grid, message = CASES[case]
    with pytest.raises(SettingsError) as caught:
        load_grid(grid)
    assert message in str(caught.value)


def test_an_unknown_name_has_its_nearest():
    with pytest.raises(UnknownNameError, match="unknown grid 'capse-papers': did you mean 'capse-paper'"):
        load_grid("capse-papers")
    with pytest.raises(UnknownNameError, match="unknown recipe 'transse': did you mean 'transe'"):
        load_grid({"recipe": "transse", "grid": {"model.dim": [1]}})


def test_whole_numbers_stay_whole():
    grid = load_grid(
        quick({"training.batch_size": {"low": 4, "high": 64, "log": True}}, set={}),
        search={"sampler": "tpe", "trials": 1},
    )
    assert grid.space == {"training.batch_size": Range(4, 64, True)}
    sizes: Any = grid.space["training.batch_size"]
    assert isinstance(sizes.low, int)
