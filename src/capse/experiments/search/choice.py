"""A method by its name, with what it is to be trained with, as the command line and the recorded results choose it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from capse.errors import SettingsError
from capse.experiments.engine import Listener
from capse.experiments.search.log_identity import require_same_log
from capse.experiments.search.methods import METHODS, load_search_run, method_of, trainable
from capse.search.evaluation.judged_lists import Ranker
from capse.search.logs.search_log import SearchLog


@dataclass(frozen=True)
class Choice:
    """One of `METHODS`, trained with ``recipe`` and ``overrides``, or taken from a ``run``.

    ``seed`` takes the place of the recipe's.
    """

    method: str
    recipe: str | Path | None = None
    run: Path | None = None
    overrides: list[str] = field(default_factory=list)
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.run is None:
            self.resolved  # noqa: B018 (what is wrong with it is said now)
            return
        trainable(self.method)
        if (trained := method_of(self.run)) != self.method:
            raise SettingsError(f"{self.run} was trained with {trained}, not {self.method}", f"give --method {trained}")
        if self.recipe or self.overrides or self.seed is not None:
            raise SettingsError("a run is given, and settings to train one too", "give either")

    @cached_property
    def resolved(self) -> Any:
        """What the method is trained with."""
        if self.run is not None:
            return self.to_train().resolved
        return METHODS[self.method].resolve(self.recipe, self.overrides)

    @property
    def epochs(self) -> int:
        return METHODS[self.method].epochs(self.resolved)

    def to_train(self) -> Choice:
        """The same method, to be trained whether there is a run or not."""
        if self.run is None:
            return self
        return replace(self, run=None, recipe=METHODS[self.method].recipe_of(self.run))

    def ranker(self, log: SearchLog, listener: Listener | None = None) -> Ranker:
        """Train what needs training, on the training and validation periods of a log."""
        if self.run is not None:
            require_same_log(self.run, log)
            return load_search_run(self.run)
        return METHODS[self.method].fit(log, self.resolved, seed=self.seed, listener=listener)
