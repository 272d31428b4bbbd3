"""A method by its name, with what it is to be trained with, as the command line and the recorded results choose it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from capse.errors import SettingsError, UnknownNameError
from capse.experiments.fit import Listener
from capse.experiments.search.methods import baseline
from capse.experiments.search.neural import ranker_of, train_ranker
from capse.experiments.search.recipe import SearchRecipe, load_search_recipe
from capse.experiments.search.trees import TREES, fit_trees, inside_of, load_trees
from capse.runs.folder import RunFolder
from capse.search.lists import Ranker
from capse.search.log import SearchLog
from capse.search.run import METHODS

UNTRAINED = ("se", "ci", "pclick")
ALL = (*UNTRAINED, "sp", *METHODS, "blend")


@dataclass(frozen=True)
class Choice:
    """One of ``ALL``; ``recipe`` and ``overrides`` are for a neural method, or for the one inside the blend (CapsE).

    With a ``run`` nothing is trained. ``seed`` takes the place of the recipe's.
    """

    method: str
    recipe: str | Path | None = None
    run: Path | None = None
    overrides: list[str] = field(default_factory=list)
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.method not in ALL:
            raise UnknownNameError("method", self.method, ALL, f"choose from {', '.join(ALL)}")
        if self.run is not None and self.method in UNTRAINED:
            remedy = f"runs are of {', '.join((*METHODS, *TREES))}"
            raise SettingsError(f"--run is given with --method {self.method}", remedy)
        if self.run is not None and (self.recipe or self.overrides or self.seed is not None):
            raise SettingsError("a run is given, and settings to train one too", "give either")
        if (self.recipe or self.overrides) and self.method not in (*METHODS, "blend"):
            raise SettingsError(f"--method {self.method} has no recipe", "leave out --recipe and --set")
        if self.method not in UNTRAINED and self.method != "sp" and self.run is None:
            self.resolved  # noqa: B018 (what is wrong with it is said now)

    @cached_property
    def resolved(self) -> SearchRecipe:
        """The recipe that a neural method is trained with."""
        if self.run is not None:
            return load_search_recipe(RunFolder.open(self.run, "capse search train").recipe)
        return load_search_recipe(
            self.recipe, method="capse" if self.method == "blend" else self.method, overrides=self.overrides
        )

    @property
    def epochs(self) -> int:
        trained = self.method in METHODS or (self.method == "blend" and self.run is None)
        return self.resolved.training.epochs if trained else 0

    def anew(self) -> Choice:
        """The same method, to be trained whether there is a run or not."""
        if self.run is None or self.method == "sp":
            return replace(self, run=None)
        return replace(
            self, run=None, recipe=(inside_of(self.run) if self.method == "blend" else self.run) / "recipe.yaml"
        )

    def ranker(self, log: SearchLog, listener: Listener | None = None) -> Ranker:
        """Train what needs training, on the training and validation periods of a log."""
        if self.method in UNTRAINED:
            return baseline(self.method)
        if self.run is not None:
            return (load_trees if self.method in TREES else ranker_of)(self.run, self.method)
        if self.method in TREES:
            inside = self.resolved if self.method == "blend" else None
            return fit_trees(log, self.method, self.seed or 0, inside, listener)
        return train_ranker(log, self.resolved, self.seed, listener=listener)
