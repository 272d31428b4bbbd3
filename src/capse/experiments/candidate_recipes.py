"""What `tune` tries where no grid says it: the recipe that would be chosen, changes of it, and other models.

The first ones are what helps most often, in that order; the rest are drawn, for a seed always the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np

from capse.errors import SettingsError
from capse.experiments.automatic import choose
from capse.experiments.recipe import Recipe
from capse.graph.dataset import Graph
from capse.runs.settings import override, parse_override

Change = Mapping[str, float | str]  # section.key -> a value, or "*2" for twice what the recipe has

PRODUCTS = ("complex", "distmult")
FIRST: tuple[Change, ...] = (
    {},
    {"regularizer.n3": "*0.3"},
    {"regularizer.n3": "*3"},
    {"model.name": "distmult"},
    {"regularizer.n3": "*0.1"},
    {"model.dim": "*2"},
    {"loss.relation_weight": 0.0},
    {"training.learning_rate": "*0.3"},
    {"regularizer.n3": 0.0, "regularizer.dura": 0.03},
)
OTHER_MODELS = ("transe", "conve")  # with their shipped recipes, after the first ones
SPACE: dict[str, tuple[float | str, ...]] = {
    "model.name": ("complex", "complex", "complex", "distmult"),
    "model.dim": ("*0.5", "*1", "*2"),
    "regularizer.n3": ("*0.1", "*0.2", "*0.5", "*1", "*2"),
    "loss.relation_weight": (0.0, 0.25, 1.0, 4.0),
    "training.learning_rate": ("*0.3", "*1", "*3"),
    "training.batch_size": ("*0.5", "*1", "*4"),
}
SPACE_OF_OTHERS = {key: SPACE[key] for key in ("model.dim", "training.learning_rate", "training.batch_size")}
SHOWN = (*SPACE, "regularizer.dura")  # the settings that tell candidates apart
_MOST_DRAWS = 1000


def candidates(graph: Graph, most: int, overrides: Sequence[str] = (), seed: int = 0) -> list[Recipe]:
    """So many different recipes, or fewer where there are no more; ``overrides`` hold in all of them."""
    found: list[Recipe] = []
    for recipe in islice(_proposed(graph, overrides, seed), _MOST_DRAWS):
        if recipe not in found:
            found.append(recipe)
        if len(found) == most:
            break
    return found


def settings_of(recipe: Recipe) -> dict[str, Any]:
    """What tells a candidate from others."""
    values = recipe.to_mapping()
    return {key: values[key.partition(".")[0]][key.partition(".")[2]] for key in SHOWN}


def _proposed(graph: Graph, overrides: Sequence[str], seed: int) -> Iterator[Recipe]:
    fixed = {".".join(parse_override(option)[0]) for option in overrides}
    best = choose(graph)
    named = Recipe.resolve(overrides=overrides) if Recipe.names_model(None, None, overrides) else best
    of_products = named.model_name in PRODUCTS
    base = best.with_settings(None, overrides) if of_products else _validated(named, best, fixed)
    yield base
    for change in FIRST:
        if of_products and not fixed & set(change):
            yield _changed(base, change)
    if "model.name" not in fixed:
        for name in OTHER_MODELS:
            with suppress(SettingsError):  # settings that hold in all of them are none of this model's
                yield _validated(Recipe.resolve(overrides=[f"model.name={name}", *overrides]), best, fixed)
    generator = np.random.default_rng(seed)
    space = SPACE if of_products else SPACE_OF_OTHERS
    while True:
        drawn = {key: values[generator.integers(len(values))] for key, values in space.items()}
        yield _changed(base, {key: value for key, value in drawn.items() if key not in fixed})


def _changed(recipe: Recipe, change: Change) -> Recipe:
    values = recipe.to_mapping()
    for name, value in change.items():
        section, _, key = name.partition(".")
        if isinstance(value, str) and value.startswith("*"):
            now = values[section][key]
            value = type(now)(max(1, round(now * float(value[1:])))) if isinstance(now, int) else now * float(value[1:])
        values[section][key] = value
    return Recipe.from_mapping(values)


def _validated(recipe: Recipe, best: Recipe, fixed: set[str]) -> Recipe:
    """The recipe with the validation of another, so that the two can be compared early and alike."""
    plan = best.to_mapping()["validation"]
    options = [f"validation.{key}={value}" for key, value in plan.items() if f"validation.{key}" not in fixed]
    return Recipe.from_mapping(override(recipe.to_mapping(), options))
