"""Recipes: shipped ones, files, overrides and mistakes in them."""

from __future__ import annotations

import pytest
import yaml

from capse.errors import CapseError, SettingsError, UnknownNameError
from capse.experiments.recipe import Recipe, load_recipe, shipped_recipes
from capse.models import MODELS


@pytest.mark.parametrize("name", shipped_recipes())
def test_shipped_recipes_resolve_and_round_trip(name, tmp_path):
    recipe = load_recipe(name)
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
    again = load_recipe(tmp_path / "recipe.yaml")
    assert again == recipe
    assert again.to_yaml() == recipe.to_yaml()
    assert Recipe.from_mapping(recipe.to_mapping()) == recipe


def test_every_model_has_a_recipe_of_its_own():
    for name in MODELS:
        recipe = load_recipe(model=name)
        assert recipe == load_recipe(name) == load_recipe(overrides=[f"model.name={name}"])
        assert recipe.model_name == name


def test_the_default_is_the_papers_capse():
    recipe = load_recipe()
    assert (recipe.model_name, recipe.model.dim, recipe.model.filters) == ("capse", 100, 50)
    assert (recipe.model.capsule_dim, recipe.model.routing, recipe.model.variant) == (10, 1, "paper")
    assert (recipe.training.batch_size, recipe.training.epochs) == (128, 50)
    assert (recipe.loss.name, recipe.loss.reduction, recipe.negatives.sampler) == ("softplus", "sum", "bernoulli")
    assert (recipe.validation.every, recipe.validation.metric) == (10, "hits@10")


def test_a_file_may_say_as_little_as_it_likes(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("training: {epochs: 3}\nloss:\n")
    recipe = load_recipe(path, model="transe", data="toy", overrides=["model.dim=7"])
    assert (recipe.model_name, recipe.model.dim, recipe.training.epochs, recipe.data) == ("transe", 7, 3, "toy")
    path.write_text("")
    assert load_recipe(path).model_name == "capse"


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
        ("a: [", {}, "line 1 is not valid YAML"),
    ],
)
def test_mistakes(tmp_path, text, options, message):
    path = tmp_path / "r.yaml"
    path.write_text(text)
    with pytest.raises(CapseError) as error:
        load_recipe(path, **options)
    assert message in str(error.value)


def test_an_empty_model_section_is_filled_by_the_model_asked_for(tmp_path):
    (tmp_path / "r.yaml").write_text("model:\n")
    assert load_recipe(tmp_path / "r.yaml", model="transe").model_name == "transe"


def test_files_that_are_no_recipes(tmp_path):
    with pytest.raises(UnknownNameError, match="unknown recipe 'transee': did you mean 'transe'"):
        load_recipe("transee")
    with pytest.raises(UnknownNameError, match=r"unknown recipe '.*nowhere\.yaml': give a YAML file or one of capse"):
        load_recipe(tmp_path / "nowhere.yaml")
    with pytest.raises(UnknownNameError, match="unknown recipe"):
        load_recipe(tmp_path)
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00a")
    with pytest.raises(SettingsError, match="is not UTF-8 text: give a recipe in YAML"):
        load_recipe(tmp_path / "bytes.yaml")


def test_the_yaml_is_plain():
    """Nothing but maps, text, numbers and truth values: a recipe can be read by anyone."""
    text = load_recipe("capse").to_yaml()
    assert "!!" not in text
    assert yaml.safe_load(text) == load_recipe("capse").to_mapping()
