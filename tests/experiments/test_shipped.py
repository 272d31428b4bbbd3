"""Recipes that come with packages: ours, and those of a package that names its folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from capse.errors import ExtensionError, UnknownNameError
from capse.experiments import shipped as module
from capse.experiments.recipe import load_recipe
from capse.experiments.shipped import recipe_values, shipped
from capse.registry import Registry

InstallPackage = Callable[[str, str, str], None]
FAST = "# TransE within a minute.\nmodel: {name: transe, dim: 7}\n"


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install_package: InstallPackage) -> Path:
    """The folder of an installed package that ships recipes, none of them yet."""
    monkeypatch.setattr(module, "PACKAGES", Registry("package", "capse.recipes", {"capse": "capse.recipes"}))
    install_package("capse.recipes", "fast = fast_recipes", "")
    folder = tmp_path / "site-packages" / "fast_recipes"
    folder.mkdir()
    folder.with_suffix(".py").rename(folder / "__init__.py")
    return folder


def test_a_recipe_of_another_package_is_found_by_its_name(outside: Path) -> None:
    (outside / "transe-fast.yaml").write_text(FAST)
    found = shipped("recipe")["transe-fast"]
    assert (found.package, found.about) == ("fast_recipes", "TransE within a minute.")
    assert load_recipe("transe-fast").model.dim == 7
    assert "transe-fast" not in shipped("search recipe")


def test_a_name_that_two_packages_ship_is_refused(outside: Path) -> None:
    (outside / "transe.yaml").write_text(FAST)
    with pytest.raises(ExtensionError, match=r"recipe 'transe' comes with two packages: capse and fast_recipes"):
        shipped("recipe")


def test_a_recipe_without_a_first_line_says_nothing_of_itself(outside: Path) -> None:
    (outside / "bare.yaml").write_text("model: {name: transe}\n")
    assert shipped("recipe")["bare"].about == ""


def test_what_is_neither_shipped_nor_a_file_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="unknown search recipe 'capsa': did you mean 'capse'"):
        recipe_values("search recipe", "capsa")
