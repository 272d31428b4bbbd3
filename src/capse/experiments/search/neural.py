"""The neural rankers by name: trained on a log with a recipe, or taken from a run."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Literal

from capse.errors import SettingsError
from capse.experiments.fit import Listener
from capse.experiments.search.fit import fit_search
from capse.experiments.search.recipe import SearchRecipe
from capse.search.log import SearchLog
from capse.search.neural import NeuralRanker
from capse.search.run import SearchRun
from capse.search.vectors import VectorSpace


def train_ranker(
    log: SearchLog,
    recipe: SearchRecipe,
    seed: int | None = None,
    *,
    listener: Listener | None = None,
    space: VectorSpace | None = None,
    unknown: Literal["engine", "model"] = "engine",
) -> NeuralRanker:
    """Train in a folder that is gone afterwards; ``seed`` takes the place of the recipe's.

    ``unknown`` says who ranks for users of whom nothing is known; see `NeuralRanker`.
    """
    if seed is not None:
        recipe = replace(recipe, training=replace(recipe.training, seed=seed))
    with tempfile.TemporaryDirectory() as folder:
        run = fit_search(log, recipe, out=Path(folder, "run"), listener=listener, space=space)
    return NeuralRanker(run, unknown=unknown)


def ranker_of(run: str | Path, method: str) -> NeuralRanker:
    """The ranker of a run, which must be one of this method."""
    loaded = SearchRun.load(run)
    if loaded.method != method:
        raise SettingsError(f"{run} was trained with {loaded.method}, not {method}", f"give --method {loaded.method}")
    return NeuralRanker(loaded)
