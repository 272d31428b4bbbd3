"""How a training is divided: which rows a step touches, into how many parts its batch falls, and who has the table.

What changes the weights is fixed when a run begins, and stands in its recipe: ``optimizer.rows`` and
``training.parts``. Who does it, and how many they are, may be another each time that it is resumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from capse.errors import SettingsError
from capse.experiments.automatic import MANY_ENTITIES
from capse.experiments.recipe import Recipe
from capse.processes.group import Group
from capse.processes.job import is_started_together
from capse.training.by_rows.learner import Division
from capse.training.by_rows.row_optimizers import works_by_rows

LEAST_PARTS = 8
LARGE_TABLE = 2**30  # bytes of a table and its optimiser's state, above which each process has a share
_KEPT = {"adagrad": 1, "adam": 2, "adamw": 2, "sgd": 0}  # numbers beside each one of the table


def with_division(recipe: Recipe, entities: int, group: Group, stored: Mapping[str, Any] | None) -> Recipe:
    """The recipe with what is left to be chosen of rows and parts; a run that is resumed stays as it was ``stored``."""
    rows, parts = recipe.optimizer.rows, recipe.training.parts
    if stored is not None:
        rows = stored.get("optimizer", {}).get("rows", "auto") if rows == "auto" else rows
        parts = parts or stored.get("training", {}).get("parts", 0)
        if not parts and is_started_together():
            raise SettingsError(
                "this run was begun by one process, and its batches are not divided",
                "resume it without torchrun, or begin another with training.parts=8, which one process can do too",
            )
    else:
        if not parts and is_started_together():
            parts = max(LEAST_PARTS, 1 << (group.size - 1).bit_length())
        by_rows = (
            works_by_rows(recipe.optimizer) and recipe.negatives.sampler != "all" and not recipe.adversary.is_named
        )
        if rows == "auto" and (parts or (by_rows and entities >= MANY_ENTITIES)):
            rows = "touched"
    if (parts or rows == "touched") and recipe.adversary.is_named:
        raise SettingsError(
            "two models that train each other are neither divided nor trained by rows",
            "leave adversary out, or train in one process with optimizer.rows=all and training.parts=0",
        )
    if parts and rows == "all":
        raise SettingsError("optimizer.rows=all where a batch is divided", "leave it out: divided steps go by rows")
    if group.size > max(parts, 1):
        raise SettingsError(
            f"{group.size} processes for training.parts={parts}", f"start {parts} or fewer, or begin with more parts"
        )
    optimizer, training = replace(recipe.optimizer, rows=rows), replace(recipe.training, parts=parts)
    return replace(recipe, optimizer=optimizer, training=training)


def division_of(recipe: Recipe, numbers: int, group: Group) -> Division | None:
    """How such a recipe is trained on a table of so many numbers; None where each step moves all rows."""
    if recipe.optimizer.rows != "touched":
        return None
    parts = recipe.training.parts
    size = 4 * numbers * (1 + _KEPT[recipe.optimizer.name])
    sharded = recipe.training.parallel == "rows" or (recipe.training.parallel == "auto" and size > LARGE_TABLE)
    return Division(max(1, parts), group, sharded=bool(parts) and sharded)
