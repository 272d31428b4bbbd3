"""Recipes: shipped ones, files, overrides and mistakes in them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from capse.errors import CapseError, SettingsError, UnknownNameError
from capse.experiments.recipe import Recipe
from capse.experiments.shipped import recipe_of_model, shipped
from capse.models import MODELS


@pytest.mark.parametrize("name", shipped("recipe"))
def test_shipped_recipes_resolve_and_round_trip(name, tmp_path):
    recipe = Recipe.resolve(name)
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
    again = Recipe.resolve(tmp_path / "recipe.yaml")
    assert again == recipe
    assert again.to_yaml() == recipe.to_yaml()
    assert Recipe.from_mapping(recipe.to_mapping()) == recipe


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_recipe(name):
    """Its own, or the default one."""
    recipe = Recipe.resolve(model=name)
    assert (
        recipe == Recipe.resolve(recipe_of_model(name), model=name) == Recipe.resolve(overrides=[f"model.name={name}"])
    )
    assert recipe.model_name == name


def test_a_model_without_a_recipe_is_trained_by_the_default_one(monkeypatch):
    monkeypatch.setitem(MODELS.builtin, "new", MODELS.builtin["distmult"])
    recipe = Recipe.resolve(model="new", overrides=["model.dim=4"])
    assert (recipe.loss.name, recipe.negatives.sampler, recipe.model.dim) == ("softmax", "all", 4)


def test_the_default_is_the_papers_capse():
    recipe = Recipe.resolve()
    model: Any = recipe.model
    assert (recipe.model_name, model.dim, model.filters) == ("capse", 100, 50)
    assert (model.capsule_dim, model.routing, model.variant) == (10, 1, "paper")
    assert (recipe.training.batch_size, recipe.training.epochs) == (128, 50)
    assert (recipe.loss.name, recipe.loss.reduction, recipe.negatives.sampler) == ("softplus", "sum", "bernoulli")
    assert (recipe.validation.every, recipe.validation.metric) == (10, "hits@10")


def test_a_file_may_say_as_little_as_it_likes(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("training: {epochs: 3}\nloss:\n")
    recipe = Recipe.resolve(path, model="transe", data="toy", overrides=["model.dim=7"])
    assert (recipe.model_name, recipe.model.dim, recipe.training.epochs, recipe.data) == ("transe", 7, 3, "toy")
    path.write_text("")
    assert Recipe.resolve(path).model_name == "capse"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("trainin: {epochs: 3}", {}, "unknown setting 'trainin': did you mean 'training'?"),
        ("training: {epoch: 3}", {}, "unknown setting 'training.epoch': did you mean 'training.epochs'?"),
        ("model: {name: transe, filters: 3}", {}, "unknown setting 'model.filters'"),
        ("model: {name: trans}", {}, "unknown model 'trans': did you mean 'trans"),
        ("model: transe", {}, "section 'model' is 'transe': write it as 'key: value' lines"),
        ("model: transe", {"model": "transe"}, "section 'model' is 'transe'"),
        ("model: [transe]", {"model": "transe"}, "section 'model' is ['transe']"),
        ("training: [1]", {}, "section 'training' is [1]"),
        ("data: 5", {}, "data is 5"),
        ("data: [a]", {}, "data is ['a']"),
        ("model: {name: transe}", {"model": "capse"}, "are for 'transe' but the model asked for is 'capse'"),
        ("", {"model": "capse", "overrides": ["model.name=transe"]}, "are for 'transe' but the model asked for is"),
        ("", {"model": "cap"}, "unknown model 'cap': did you mean 'capse'?"),
        ("", {"overrides": ["training.epochs=-1"]}, "training.epochs is -1: choose 0"),
        ("", {"overrides": ["model.dim=0"]}, "model.dim is 0"),
        ("", {"overrides": ["training.sed=1"]}, "did you mean 'training.seed'?"),
        ("start: {run: a, words: b}", {}, "start.run and start.words are both given: start from one of them"),
        ("model: {name: transe, norm: 3}", {}, "model.norm is 3: choose from 1, 2"),
        ("loss: {name: [margin]}", {}, "loss.name is ['margin']: choose from softplus"),
        ("regularizer: {name: n3}", {}, "unknown setting 'regularizer.name'"),
        ("a: [", {}, "line 1 is not valid YAML"),
    ],
)
def test_mistakes(tmp_path, text, options, message):
    path = tmp_path / "r.yaml"
    path.write_text(text)
    with pytest.raises(CapseError) as error:
        Recipe.resolve(path, **options)
    assert message in str(error.value)


def test_an_empty_model_section_is_filled_by_the_model_asked_for(tmp_path):
    (tmp_path / "r.yaml").write_text("model:\n")
    assert Recipe.resolve(tmp_path / "r.yaml", model="transe").model_name == "transe"


def test_files_that_are_no_recipes(tmp_path):
    with pytest.raises(UnknownNameError, match="unknown recipe 'transee': did you mean 'transe'"):
        Recipe.resolve("transee")
    with pytest.raises(UnknownNameError, match=r"unknown recipe '.*nowhere\.yaml': give a YAML file or one of capse"):
        Recipe.resolve(tmp_path / "nowhere.yaml")
    with pytest.raises(UnknownNameError, match="unknown recipe"):
        Recipe.resolve(tmp_path)
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00a")
    with pytest.raises(SettingsError, match="is not UTF-8 text: give a recipe in YAML"):
        Recipe.resolve(tmp_path / "bytes.yaml")


def test_the_yaml_is_plain():
    """Nothing but maps, text, numbers and truth values: a recipe can be read by anyone."""
    text = Recipe.resolve("capse").to_yaml()
    assert "!!" not in text
    assert yaml.safe_load(text) == Recipe.resolve("capse").to_mapping()
