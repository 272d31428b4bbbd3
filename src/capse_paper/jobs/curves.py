"""Train CapsE with each number of filters that Figure 4 shows, and record how it fares on the validation set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from capse.experiments.search.recipe import SearchRecipe
from capse_paper.jobs.ranking import find_log, train, vectors_of
from capse_paper.plans.rankers import CurveExperiment
from capse_paper.recorded.rankings import curve_path, write_curve


@dataclass(frozen=True)
class CurveJob:
    """A training whose learning curve is to be recorded."""

    experiment: CurveExperiment
    seed: int
    out: Path

    @property
    def name(self) -> str:
        return f"{self.experiment.name}, seed {self.seed}"

    @property
    def path(self) -> Path:
        chosen = self.experiment
        return self.out / curve_path(chosen.log, chosen.method, chosen.settings, chosen.filters, self.seed)

    @property
    def recipe(self) -> SearchRecipe:
        own = (f"model.filters={self.experiment.filters}", f"training.seed={self.seed}")
        return SearchRecipe.resolve(self.experiment.recipe, overrides=[*self.experiment.overrides, *own])

    def run(self) -> None:
        chosen, recipe = self.experiment, self.recipe
        _, epochs = train(find_log(chosen.log), recipe, vectors_of(chosen.log, recipe.vectors))
        write_curve(
            self.out,
            chosen.log,
            chosen.method,
            chosen.filters,
            epochs,
            settings=chosen.settings,
            seed=self.seed,
            recipe=chosen.recipe,
            resolved=recipe.to_mapping(),
        )


def missing_curves(
    chosen: Iterable[CurveExperiment], out: str | Path, seeds: Sequence[int] | None = None
) -> list[CurveJob]:
    """What is still to be trained; with ``seeds``, of those among each experiment's own."""
    jobs = [
        CurveJob(experiment, seed, Path(out))
        for experiment in chosen
        for seed in experiment.seeds
        if seeds is None or seed in seeds
    ]
    return [job for job in jobs if not job.path.is_file()]
