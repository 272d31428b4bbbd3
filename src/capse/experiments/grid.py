"""A grid: a recipe, the settings to try in it, and how to go through them; YAML in a file, and saved with the study.

recipe: transe                                   # a shipped name, a file, or the sections of a recipe
set: {training.epochs: 100}                      # fixed in every trial
grid:
  model.dim: [50, 100]                           # every combination is a trial, the last key changing fastest
  training.learning_rate: [1.0e-4, 1.0e-3]       # or {low: 1.0e-4, high: 1.0e-2, log: true} to draw from
metric: hits@10                                  # to compare by; the recipe's validation.metric by default
search: {sampler: grid}                          # or random or tpe, with a number of trials
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from capse.errors import SettingsError
from capse.experiments.recipe import Recipe
from capse.experiments.shipped import recipe_values
from capse.experiments.validation import ChosenMetric
from capse.runs.formats import FORMAT, upgraded
from capse.runs.settings import check_key, fill, override, to_mapping

MOST_TRIALS = 10_000
_NOT_SEARCHED = {
    "model.name": "make a study for each model",
    "validation.metric": "trials are compared by it",
    "validation.triples": "trials are compared on the same triples",
    "training.device": "it says where to train, not what: set it for all trials",
    "training.checkpoint_seconds": "it changes no result: set it for all trials",
    "training.tensorboard": "it changes no result: set it for all trials",
}


@dataclass(frozen=True)
class SearchSettings:
    """How to go through the grid."""

    sampler: Literal["grid", "random", "tpe"] = "grid"  # grid tries every combination; the others need Optuna
    trials: int | None = None  # how many to draw, in all; with random and tpe only
    seed: int = 0  # of the draws
    storage: str | None = (
        None  # where drawn trials are agreed on, e.g. postgresql://...; SQLite in the study by default
    )

    def __post_init__(self) -> None:
        if self.sampler == "grid":
            for key in ("trials", "storage"):
                if getattr(self, key) is not None:
                    raise SettingsError(f"search.{key} is given for a grid", "choose the sampler random or tpe")
        elif self.trials is None:
            raise SettingsError(f"nothing says how many trials to draw with {self.sampler}", "give search.trials")
        elif self.trials < 1:
            raise SettingsError(f"search.trials is {self.trials}", "choose 1 or more")
        if self.seed < 0:
            raise SettingsError(f"search.seed is {self.seed}", "choose 0 or more")


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``, both included; with ``log``, every order of magnitude is as likely."""

    low: float
    high: float
    log: bool = False


@dataclass(frozen=True)
class Trial:
    """One recipe of a study; ``number`` is its place in the grid, or the order in which it was drawn."""

    number: int
    settings: dict[str, Any]
    recipe: Recipe


@dataclass(frozen=True)
class Grid:
    """A recipe and what to try in it."""

    recipe: Recipe
    space: dict[str, tuple[Any, ...] | Range]  # section.key -> values in the types of that setting
    search: SearchSettings

    @property
    def metric(self) -> str:
        return self.recipe.validation.metric

    @property
    def minimised(self) -> bool:
        return ChosenMetric.named(self.metric).metric == "mr"

    @property
    def total(self) -> int:
        """How many trials there are in all."""
        if self.search.trials is not None:
            return self.search.trials
        return math.prod(len(values) for values in self.space.values() if isinstance(values, tuple))

    def trial(self, number: int, settings: Mapping[str, Any]) -> Trial:
        """The trial with these settings in place of the recipe's."""
        values = self.recipe.to_mapping()
        _put(values, settings)
        return Trial(number, dict(settings), Recipe.from_mapping(values))

    def trials(self) -> list[Trial]:
        """Every trial of an enumerated grid."""
        lists = [values for values in self.space.values() if isinstance(values, tuple)]
        combinations = itertools.product(*lists)
        return [self.trial(n, dict(zip(self.space, values, strict=True))) for n, values in enumerate(combinations)]

    def samples(self) -> list[Trial]:
        """Trials that stand for all there can be: all of them, or where trials are drawn, each value at least once."""
        if self.search.sampler == "grid":
            return self.trials()
        ends = {k: (v.low, v.high) if isinstance(v, Range) else v for k, v in self.space.items()}
        first = {key: values[0] for key, values in ends.items()}
        return [self.trial(0, first | {key: value}) for key, values in ends.items() for value in values]

    def to_yaml(self) -> str:
        """The resolved grid, which `load_grid` reads."""
        space = {k: to_mapping(v) if isinstance(v, Range) else list(v) for k, v in self.space.items()}
        sections = {"recipe": self.recipe.to_mapping(), "grid": space, "search": to_mapping(self.search)}
        values = {"format": FORMAT, **sections}
        return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def load_grid(
    source: str | Path | Mapping[str, Any],
    overrides: list[str] | None = None,
    search: Mapping[str, Any] | None = None,
) -> Grid:
    """A grid from a file, by a shipped name, or as a mapping, with ``section.key=value`` and search settings put in.

    >>> grid = load_grid({"recipe": "transe", "grid": {"model.dim": [50, 100]}}, overrides=["training.epochs=20"])
    >>> grid.total, grid.metric, grid.trials()[1].settings
    (2, 'mrr', {'model.dim': 100})
    """
    if isinstance(source, Mapping):
        values = upgraded(source, "the grid")
    else:
        values = upgraded(recipe_values("grid", source), f"the grid {source}")
    for key in values:
        check_key(str(key), ["recipe", "set", "grid", "metric", "search"])
    space, fixed = _section(values, "grid"), _section(values, "set")
    if values.get("metric") is not None:
        fixed = {**fixed, "validation.metric": values["metric"]}
    recipe = _recipe(values.get("recipe"), fixed, overrides or [])
    chosen = {**_section(values, "search"), **{k: v for k, v in (search or {}).items() if v is not None}}
    settings = fill(SearchSettings, chosen, "search")
    for key in (*fixed, *(option.partition("=")[0].strip() for option in overrides or [])):
        if key in space:
            raise SettingsError(f"{key} is fixed and searched at once", "leave it out of one of them")
    grid = Grid(recipe, {}, settings)
    ChosenMetric.named(grid.metric)
    if not space:
        raise SettingsError("the grid is empty", "write 'grid:' and below it lines such as 'model.dim: [50, 100]'")
    grid = replace(grid, space={str(key): _values(grid, str(key), value) for key, value in space.items()})
    if grid.search.sampler == "grid" and grid.total > MOST_TRIALS:
        raise SettingsError(f"the grid has {grid.total:,} trials", "shorten it, or draw some with the sampler random")
    if "training.seed" in grid.space and recipe.validation.triples:
        raise SettingsError(
            "training.seed is searched, and it draws the validation.triples",
            "trials are compared on the same triples: set validation.triples to 0, or search no seed",
        )
    for trial in grid.samples():  # raises if there is a value that its setting does not take
        _check_validated(trial.recipe)
    return grid


def _check_validated(recipe: Recipe) -> None:
    """Refuse a trial that would end without a value to compare it by."""
    for key, value in (("validation.every", recipe.validation.every), ("training.epochs", recipe.training.epochs)):
        if not value:
            raise SettingsError(f"{key} is 0", "trials are compared on the validation set: choose 1 or more")


def _recipe(source: Any, fixed: Mapping[str, Any], overrides: list[str]) -> Recipe:
    """The recipe that a grid names or holds, with what is fixed put in; ``overrides`` have the last word."""
    if isinstance(source, Mapping):
        values = {key: dict(value) if isinstance(value, Mapping) else value for key, value in source.items()}
    elif source is None or isinstance(source, str):
        model = override({}, overrides).get("model", {}).get("name", fixed.get("model.name"))
        values = Recipe.resolve(source, model=None if source or model is None else str(model)).to_mapping()
    else:
        raise SettingsError(f"recipe is {source!r}", "write a shipped name, a file, or sections such as 'model:'")
    _put(values, fixed)
    return Recipe.from_mapping(override(values, overrides))


def _put(values: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """Set every ``section.key`` of ``settings`` in a recipe's sections."""
    for name, value in settings.items():
        section, dot, key = str(name).partition(".")
        if not dot or not isinstance(values.setdefault(section, {}), dict):
            raise SettingsError(f"cannot set {name!r}", "settings have two parts: section.key")
        values[section][key] = value


def _section(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = values.get(name) or {}
    if not isinstance(section, Mapping):
        raise SettingsError(f"section {name!r} is {section!r}", "write it as 'key: value' lines")
    return section


def _values(grid: Grid, name: str, given: Any) -> tuple[Any, ...] | Range:
    """What is to be tried for one setting, in the setting's own type."""
    known = grid.recipe.to_mapping()
    section, dot, key = name.partition(".")
    if not dot:
        raise SettingsError(f"cannot search {name!r}", "settings have two parts: section.key")
    check_key(section, [name for name, value in known.items() if isinstance(value, dict)])
    check_key(key, list(known[section]), section)
    if name in _NOT_SEARCHED:
        raise SettingsError(f"{name} cannot be searched", _NOT_SEARCHED[name])

    def typed(value: Any) -> Any:
        return grid.trial(0, {name: value}).recipe.to_mapping()[section][key]

    if isinstance(given, Mapping):
        bounds = _range(given, name)
        if grid.search.sampler == "grid":
            raise SettingsError(f"{name} is a range", "write a list of values, or choose the sampler random or tpe")
        low, high = typed(bounds.low), typed(bounds.high)
        if isinstance(low, (bool, str)):
            raise SettingsError(f"{name} is a range, and the setting no number", "write a list of values")
        return Range(low, high, bounds.log)
    if not isinstance(given, list) or not given:
        raise SettingsError(f"grid: {name} is {given!r}", "write a list of values in brackets")
    values = tuple(typed(value) for value in given)
    for place, value in enumerate(values):
        if value in values[:place]:
            raise SettingsError(f"grid: {name} lists {value!r} twice", "remove one of them")
    return values


def _range(given: Mapping[str, Any], name: str) -> Range:
    for key in ("low", "high"):
        if key not in given:
            raise SettingsError(f"the range of {name} has no {key!r}", "write {low: 1.0e-5, high: 1.0e-3, log: true}")
    bounds = fill(Range, given, name)
    if bounds.low >= bounds.high:
        raise SettingsError(f"the range of {name} is from {bounds.low} to {bounds.high}", "give a low below the high")
    if bounds.log and bounds.low <= 0:
        raise SettingsError(f"the range of {name} begins at {bounds.low}", "with log, begin above 0")
    return bounds
