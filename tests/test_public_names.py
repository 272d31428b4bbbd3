"""The public names: stubs that say what there is, and signatures that name public types only."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import capse as typed
from capse.models import MODELS, ModelSettings

capse: Any = typed  # beside its stub, which has no private names
PUBLIC = {getattr(capse, name): name for name in capse.__all__ if name != "__version__"}


def test_every_name_is_there_and_listed() -> None:
    assert sorted(capse.__all__) == dir(capse)
    with pytest.raises(AttributeError, match="module 'capse' has no attribute 'fitt'"):
        capse.fitt  # noqa: B018


def test_the_stub_has_the_names_of_the_runtime_and_their_homes() -> None:
    tree = ast.parse(Path(capse.__file__).with_suffix(".pyi").read_text())
    imported = {
        name.asname: (node.module, name.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    declared = {
        node.target.id for node in tree.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assert {*imported, *declared} == set(capse.__all__)
    for name, (module, original) in imported.items():
        if name not in ("errors", "CapseError"):
            assert (module, original) == (capse._HOMES[name], name)


def test_every_model_and_section_is_public() -> None:
    for name in MODELS.builtin:
        settings = MODELS[name].Settings
        assert settings in PUBLIC, f"the settings of {name}"
        assert issubclass(settings, ModelSettings)
    for recipe in (capse.Recipe, capse.SearchRecipe):
        hints = typing.get_type_hints(recipe)
        for field in dataclasses.fields(recipe):
            assert field.name == "data" or hints[field.name] in PUBLIC, field.name


@pytest.mark.parametrize("thing", PUBLIC, ids=PUBLIC.values())
def test_public_signatures_name_public_types(thing: Any) -> None:
    for where, hints in signatures_of(thing):
        for name, hint in hints.items():
            for kind in types_in(hint):
                if kind.__module__.startswith("capse"):
                    assert kind in PUBLIC, f"{where}: {name} is a {kind.__module__}.{kind.__qualname__}"


def signatures_of(thing: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Those of a function; of a class its fields or constructor, and its public methods and properties."""
    if not inspect.isclass(thing):
        if inspect.isfunction(thing):
            yield thing.__name__, hints_of(thing)
        return
    fields = {field.name for field in dataclasses.fields(thing)} if dataclasses.is_dataclass(thing) else set()
    yield thing.__name__, {name: hint for name, hint in hints_of(thing).items() if name in fields}
    for name, member in inspect.getmembers_static(thing):
        function = getattr(member, "fget", None) or getattr(member, "func", None) or getattr(member, "__func__", member)
        own = inspect.isfunction(function) and function.__module__.startswith("capse")
        if own and (not name.startswith("_") or (name == "__init__" and not fields)):
            yield f"{thing.__name__}.{name}", hints_of(function)


def hints_of(thing: Any) -> dict[str, Any]:
    """Annotations as types; those that a module imports for type checkers only are public names too."""
    return typing.get_type_hints(thing, localns={name: kind for kind, name in PUBLIC.items()})


def types_in(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
        yield hint
    for part in typing.get_args(hint):
        yield from types_in(part)
