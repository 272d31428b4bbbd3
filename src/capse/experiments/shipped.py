"""Recipes that come with packages: YAML files for graphs, below ``search/`` for search, below ``refine/`` for refined
runs, and below ``grids/`` grids.

A package ships its own by naming the package that they lie in, in its ``pyproject.toml``::

    [project.entry-points."capse.recipes"]
    capse_paper = "capse_paper.recipes"
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from capse.errors import ExtensionError, SettingsError, UnknownNameError
from capse.registry import Registry
from capse.runs.settings import load_yaml

Kind = Literal["recipe", "search recipe", "refinement", "grid"]
KINDS: dict[Kind, str] = {
    "recipe": "",
    "search recipe": "search",
    "refinement": "refine",
    "grid": "grids",
}  # and the folder of each
PACKAGES: Registry[ModuleType] = Registry("package of recipes", "capse.recipes", {"capse": "capse.recipes"})


@dataclass(frozen=True)
class Shipped:
    """A file that comes with a package."""

    kind: Kind
    name: str
    package: str
    file: Traversable

    @property
    def text(self) -> str:
        return self.file.read_text(encoding="utf-8")

    @property
    def about(self) -> str:
        """What the file says of itself in its first line."""
        first = self.text.partition("\n")[0]
        return first.removeprefix("#").strip() if first.startswith("#") else ""


def shipped(kind: Kind) -> dict[str, Shipped]:
    """All recipes of a kind, by name.

    >>> shipped("search recipe")["convkb"].package
    'capse'
    """
    found: dict[str, Shipped] = {}
    for package in PACKAGES.values():
        folder = files(package) / KINDS[kind]
        for file in folder.iterdir() if folder.is_dir() else ():
            if file.name.endswith(".yaml"):
                one = Shipped(kind, file.name.removesuffix(".yaml"), package.__name__.partition(".")[0], file)
                other = found.setdefault(one.name, one)
                if other is not one:
                    raise ExtensionError(
                        f"the {kind} {one.name!r} comes with two packages: {other.package} and {one.package}",
                        "uninstall one of the two packages, or rename its recipe",
                    )
    return dict(sorted(found.items()))


def recipe_of_model(name: str) -> str:
    """The recipe that a model is trained with where none is named: that of its own name, or ``default``."""
    return name if name in shipped("recipe") else "default"


def recipe_values(kind: Kind, source: str | Path) -> dict[str, Any]:
    """What a shipped recipe holds, or else a YAML file."""
    known = shipped(kind)
    if str(source) in known:
        return load_yaml(known[str(source)].text, f"{kind} {source}")
    path = Path(source)
    try:
        return load_yaml(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8 text", f"give a {kind} in YAML") from error
    except OSError as error:
        raise UnknownNameError(kind, str(source), known, f"give a YAML file or one of {', '.join(known)}") from error
