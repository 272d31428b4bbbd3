"""Strict settings: frozen dataclasses filled from YAML and from ``--set section.key=value``.

An unknown key is an error that names the nearest known one; a value of the wrong type is an error that says what was
expected. Nothing is ever evaluated.
"""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import math
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from capse.errors import SettingsError

T = TypeVar("T")


class Section:
    """A base of settings that remember what they were given, so that a recipe can supply the rest.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Example(Section):
    ...     epochs: int = 50
    ...     batch_size: int = 128
    >>> Example(epochs=5).over(Example(epochs=200, batch_size=1024))
    Example(epochs=5, batch_size=1024)
    """

    given: frozenset[str]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        section = super().__new__(cls)
        names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        object.__setattr__(section, "given", frozenset([*names[: len(args)], *kwargs]))
        return section

    def over(self, recipe: Any) -> Self:
        """What was given here, and what was not from ``recipe``, unless that has settings of another class."""
        if type(recipe) is not type(self):
            return self
        given = {name: getattr(self, name) for name in self.given}
        return dataclasses.replace(recipe, **given)  # type: ignore[type-var] # subclasses are dataclasses


def fill(cls: type[T], values: Mapping[str, Any] | None, section: str = "") -> T:
    """An instance of the dataclass ``cls`` with ``values`` over its defaults; ``section`` names it in errors.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Example:
    ...     epochs: int = 50
    >>> fill(Example, {"epochs": 3}, "training")
    Example(epochs=3)
    >>> fill(Example, {"epoch": 3}, "training")
    Traceback (most recent call last):
    capse.errors.SettingsError: unknown setting 'training.epoch': did you mean 'training.epochs'?
    """
    if values is None:
        values = {}
    if not isinstance(values, Mapping):
        raise SettingsError(f"section {section!r} is {values!r}", "write it as 'key: value' lines")
    hints = get_type_hints(cls)
    known = [field.name for field in dataclasses.fields(cls) if field.init]  # type: ignore[arg-type]
    arguments = {}
    for key, value in values.items():
        check_key(str(key), known, section)
        arguments[key] = _convert(value, hints[key], dotted(section, key))
    return dataclasses.replace(cls(**arguments))  # type: ignore[type-var] # a section of a file is given as a whole


def check_key(key: str, known: list[str], section: str = "") -> None:
    """Raise unless ``key`` is one of ``known``."""
    if key not in known:
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
        options = ", ".join(known)
        remedy = f"did you mean {dotted(section, near[0])!r}?" if near else f"choose from {options}"
        raise SettingsError(f"unknown setting {dotted(section, key)!r}", remedy)


def check_choices(settings: Any, section: str) -> None:
    """Raise unless every field with a fixed list of values has one of them, however the object was made."""
    for key, kind in get_type_hints(type(settings)).items():
        if get_origin(kind) is Literal:
            _convert(getattr(settings, key), kind, dotted(section, key))


def dotted(section: str, key: str) -> str:
    return f"{section}.{key}" if section else key


def to_mapping(settings: Any) -> dict[str, Any]:
    """The settings as plain values that YAML can hold."""
    return dataclasses.asdict(settings)


def load_yaml(text: str, source: str) -> dict[str, Any]:
    """A mapping from YAML text; anything else is an error that names ``source``."""
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        line = f", line {place.line + 1}" if place else ""
        raise SettingsError(f"{source}{line} is not valid YAML", "check indentation, colons and quotes") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingsError(f"{source} does not hold settings", "write sections such as 'model:' and 'training:'")
    return content


def parse_override(text: str) -> tuple[list[str], Any]:
    """``section.key=value`` as a path and a YAML value.

    >>> parse_override("training.learning_rate=1e-4")
    (['training', 'learning_rate'], 0.0001)
    """
    path, equals, value = text.partition("=")
    keys = path.strip().split(".")
    if not equals or len(keys) < 2 or not all(keys):
        raise SettingsError(f"cannot read --set {text!r}", "write --set section.key=value, e.g. training.epochs=20")
    return keys, _scalar(value, text)


def override(values: dict[str, Any], options: list[str]) -> dict[str, Any]:
    """``values`` with every ``section.key=value`` of ``options`` put in."""
    merged: dict[str, Any] = {k: dict(v) if isinstance(v, dict) else v for k, v in values.items()}
    for option in options:
        (section, *rest), value = parse_override(option)
        if len(rest) != 1:
            raise SettingsError(f"cannot read --set {option!r}", "settings have two parts: section.key")
        if not isinstance(merged.setdefault(section, {}), dict):
            raise SettingsError(f"{section!r} is not a section", "write --set section.key=value")
        merged[section][rest[0]] = value
    return merged


def _scalar(text: str, option: str) -> Any:
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SettingsError(f"cannot read the value in --set {option!r}", "quote it, or write a plain value") from error
    if isinstance(value, str):  # YAML 1.1 reads 1e-4 as text
        try:
            return float(value) if any(c.isdigit() for c in value) else value
        except ValueError:
            return value
    return value


def _convert(value: Any, kind: Any, where: str) -> Any:
    """``value`` as the annotation ``kind`` wants it; ``where`` names the setting to whoever wrote it."""
    options = get_args(kind)
    if get_origin(kind) in (Union, types.UnionType):
        if value is None and type(None) in options:
            return None
        (kind,) = (option for option in options if option is not type(None))
        return _convert(value, kind, where)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return fill(kind, value, where)
    if get_origin(kind) is Literal:
        found = None if isinstance(value, bool) else next((option for option in options if option == value), None)
        remedy = "choose from " + ", ".join(map(str, options))
    else:
        read, remedy = _SCALARS.get(kind, _SCALARS[str])
        found = read(value)
    if found is None:
        raise SettingsError(f"{where} is {value!r}", remedy)
    return found


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _whole(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)  # YAML 1.1 reads 1e-4 as text
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _text(value: Any) -> str | None:
    """YAML reads 2024-05-01 as a date."""
    known = isinstance(value, str | int | float | datetime.date) and not isinstance(value, bool)
    return str(value) if known else None


_SCALARS: dict[Any, tuple[Callable[[Any], Any], str]] = {
    bool: (_truth, "write true or false"),
    int: (_whole, "write a whole number"),
    float: (_number, "write a number"),
    str: (_text, "write text"),
}
