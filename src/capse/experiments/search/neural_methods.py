"""The neural models as search methods: trained on the lists of a log with a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from capse.experiments.engine import Listener
from capse.experiments.search.fit import fit_search
from capse.experiments.search.methods import COMMAND, SearchMethod
from capse.experiments.search.recipe import SearchRecipe
from capse.runs.folder import RunFolder
from capse.search.logs.search_log import SearchLog
from capse.search.rankers.neural import NeuralRanker
from capse.search.rankers.search_run import SearchRun
from capse.search.vectors.vector_space import VectorSpace


def train_ranker(
    log: SearchLog,
    recipe: SearchRecipe,
    seed: int | None = None,
    *,
    listener: Listener | None = None,
    space: VectorSpace | None = None,
    ranks: Literal["standing", "model"] = "standing",
) -> NeuralRanker:
    """Train in a folder that is gone with the ranker; ``seed`` takes the place of the recipe's.

    With ``ranks`` set to 'model' the engine's order never stands; see `NeuralRanker`.
    """
    if seed is not None:
        recipe = replace(recipe, training=replace(recipe.training, seed=seed))
    return NeuralRanker(fit_search(log, recipe, listener=listener, space=space), ranks=ranks)


class NeuralMethod(SearchMethod):
    """A model over (query, user, document); without a name, whatever the recipe says, CapsE by default."""

    learns = True

    def __init__(self, name: str = "") -> None:
        super().__init__(name)

    def resolve(self, recipe: str | Path | None = None, overrides: Sequence[str] = ()) -> SearchRecipe:
        return SearchRecipe.resolve(recipe, model=self.name or None, overrides=overrides)

    def epochs(self, recipe: SearchRecipe) -> int:
        return recipe.training.epochs

    def fit(
        self,
        log: SearchLog,
        recipe: SearchRecipe | None = None,
        *,
        seed: int | None = None,
        listener: Listener | None = None,
    ) -> NeuralRanker:
        ranker = train_ranker(log, recipe or self.resolve(), seed, listener=listener)
        _say_who_ranks(ranker.run, listener)
        return ranker

    def train(
        self,
        log: SearchLog,
        recipe: SearchRecipe | None = None,
        *,
        out: str | Path,
        resume: bool = False,
        listener: Listener | None = None,
    ) -> None:
        _say_who_ranks(fit_search(log, recipe or self.resolve(), out=out, resume=resume, listener=listener), listener)

    def load(self, run: Path) -> NeuralRanker:
        return NeuralRanker(SearchRun.load(run))

    def recipe_of(self, run: Path) -> Path:
        return RunFolder.open(run, COMMAND).recipe


def _say_who_ranks(run: SearchRun, listener: Listener | None) -> None:
    warning = run.standing.warning(run.method)
    if listener is not None and warning:
        listener.message(warning)


TRANSE, CONVKB, CAPSE = NeuralMethod("transe"), NeuralMethod("convkb"), NeuralMethod("capse")
