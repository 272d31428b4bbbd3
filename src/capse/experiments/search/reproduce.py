"""Make the rankers of a plan whose records are missing, and record what each does on its test set.

Nothing but the training and validation periods decides what a ranker is. One that is trained is trained once, and
evaluated with each kind of history.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from capse.errors import DataError
from capse.experiments.search.blend import CrossFitted, cross_fit, fit_blend
from capse.experiments.search.methods import BASELINES, HISTORY, fit_sp
from capse.experiments.search.neural import train_ranker
from capse.experiments.search.plan import SearchExperiment
from capse.experiments.search.recipe import load_search_recipe
from capse.experiments.search.records import record_path, write_record
from capse.runs.settings import to_mapping
from capse.search.evaluation import evaluate
from capse.search.features import GROUPS
from capse.search.ingest import open_log
from capse.search.lambdamart import LambdaMARTSettings
from capse.search.lists import Ranker
from capse.search.log import SearchLog
from capse.search.personalised import SP
from capse.search.run import METHODS
from capse.search.vectors import VectorSettings, VectorSpace, build_vectors


@dataclass(frozen=True)
class Made:
    """A ranker, and what there is to say of how it was made."""

    ranker: Ranker
    resolved: Mapping[str, Any] | None = None  # its settings
    training: Mapping[str, Any] | None = None


Maker = Callable[[SearchExperiment, SearchLog, int], Made]


@dataclass(frozen=True)
class SearchJob:
    """A ranker that is to be made and evaluated."""

    experiment: SearchExperiment
    seed: int
    out: Path

    @property
    def name(self) -> str:
        return f"{self.experiment.name}, seed {self.seed}"

    def missing(self) -> list[Path]:
        """The records that are not there yet."""
        wanted = (self._path(history) for history in self.experiment.histories)
        return [path for path in wanted if not path.is_file()]

    def run(self) -> list[Path]:
        """Write the records that are missing."""
        log = _log(self.experiment.log)
        made = MAKERS.get(self.experiment.method, _baseline)(self.experiment, log, self.seed)
        written = []
        for history in self.experiment.histories:
            if not self._path(history).is_file():
                found = evaluate(made.ranker, log, history=history, method=self.experiment.method)
                written.append(
                    write_record(
                        self.out,
                        found,
                        settings=self.experiment.settings,
                        seed=self.seed,
                        recipe=self.experiment.recipe,
                        resolved=made.resolved,
                        training=made.training,
                    )
                )
        return written

    def _path(self, history: Any) -> Path:
        chosen = self.experiment
        return self.out / record_path(chosen.log, chosen.method, chosen.settings, history, self.seed)


def missing_jobs(
    chosen: Iterable[SearchExperiment], out: str | Path, seeds: Sequence[int] | None = None
) -> list[SearchJob]:
    """What is still to be done for the chosen experiments; with ``seeds``, for those among each one's own."""
    jobs = [
        SearchJob(experiment, seed, Path(out))
        for experiment in chosen
        for seed in experiment.seeds
        if seeds is None or seed in seeds
    ]
    return [job for job in jobs if job.missing()]


def _baseline(experiment: SearchExperiment, log: SearchLog, seed: int) -> Made:
    return Made(BASELINES[experiment.method])


def _neural(experiment: SearchExperiment, log: SearchLog, seed: int) -> Made:
    recipe = load_search_recipe(experiment.recipe, method=experiment.method)
    return Made(train_ranker(log, recipe, seed), recipe.to_mapping())


def _trees(groups: Sequence[str], experiment: SearchExperiment, log: SearchLog, seed: int) -> Made:
    return _of_trees(fit_sp(log, seed, groups=groups, space=_topics(experiment.log)))


def _blend(groups: Sequence[str], experiment: SearchExperiment, log: SearchLog, seed: int) -> Made:
    """CapsE's default recipe inside."""
    fitted = {"capse": _capse(experiment.log, seed)}
    settings = LambdaMARTSettings(seed=seed)
    blend = fit_blend(log, fitted, settings, groups=groups, space=_topics(experiment.log))
    return _of_trees(blend, capse=load_search_recipe(method="capse").to_mapping())


def _of_trees(ranker: SP, **settings: Any) -> Made:
    model, space = ranker.model, ranker.space
    resolved = {"lambdamart": to_mapping(model.settings), "vectors": space and to_mapping(space.settings), **settings}
    gains = {name: round(gain) for name, gain in list(model.gains().items())[:20]}
    return Made(ranker, resolved, {"validation_mrr": model.validation_mrr, "gains": gains})


MAKERS: dict[str, Maker] = {
    **dict.fromkeys(METHODS, _neural),
    "sp": partial(_trees, GROUPS),
    "blend": partial(_blend, GROUPS),
    "history": partial(_trees, HISTORY),
    "history-blend": partial(_blend, HISTORY),
}


@cache
def _topics(name: str) -> VectorSpace:
    """The topics that SP's profiles are made of: with every seed of the trees the same."""
    return build_vectors(_log(name), VectorSettings())


@cache
def _capse(name: str, seed: int) -> CrossFitted:
    """Trained once for all blends."""
    recipe = load_search_recipe(method="capse")
    return cross_fit(_log(name), partial(train_ranker, recipe=recipe, seed=seed, unknown="model"))


@cache
def _log(name: str) -> SearchLog:
    folder = Path(os.environ.get("CAPSE_DATA", ".")) / name
    if not folder.is_dir():
        raise DataError(f"the log {name} is not in CAPSE_DATA", "set it to a folder that has it, or use --only")
    return open_log(folder)
