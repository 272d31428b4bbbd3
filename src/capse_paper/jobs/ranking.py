"""Make the rankers of a plan whose records are missing, and record what each does on its test set.

Nothing but the training and validation periods decides what a ranker is. One that is trained is trained once, and
evaluated with each kind of history.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from capse.errors import DataError
from capse.experiments.search.cross_fitting import CrossFitted, cross_fit
from capse.experiments.search.fit import fit_search
from capse.experiments.search.lambdamart_methods import fit_trees
from capse.experiments.search.methods import METHODS
from capse.experiments.search.neural_methods import train_ranker
from capse.experiments.search.recipe import SearchRecipe
from capse.runs.folder import RunFolder
from capse.runs.settings import to_mapping
from capse.search.evaluation.evaluate import evaluate
from capse.search.evaluation.judged_lists import Ranker
from capse.search.features import GROUPS
from capse.search.ingest import open_log
from capse.search.logs.search_log import SearchLog
from capse.search.rankers.neural import NeuralRanker
from capse.search.rankers.search_run import LIST_MODELS, SearchRun
from capse.search.rankers.sp_lambdamart import SP
from capse.search.vectors.vector_space import VectorSettings, VectorSpace, build_vectors
from capse_paper.plans.rankers import SearchExperiment
from capse_paper.recorded.rankings import record_path, write_record


@dataclass(frozen=True)
class Made:
    """A ranker, and what there is to say of how it was made."""

    ranker: Ranker
    resolved: Mapping[str, Any] | None = None  # its settings
    training: Mapping[str, Any] | None = None


HISTORY = ("rank", "history", "profile", "context")  # features without the texts and without other people's clicks

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
        log = find_log(self.experiment.log)
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
    return Made(METHODS[experiment.method].fit(log))


def _neural(experiment: SearchExperiment, log: SearchLog, seed: int) -> Made:
    recipe = SearchRecipe.resolve(experiment.recipe, model=experiment.method, overrides=[f"training.seed={seed}"])
    run, epochs = train(log, recipe, vectors_of(experiment.log, recipe.vectors))
    best = max(epochs, key=lambda epoch: epoch["validation"]["mrr"])
    training = {"epochs": len(epochs), "best": best, "seconds": epochs[-1]["seconds"]}
    return Made(NeuralRanker(run), recipe.to_mapping(), training)


def _trees(groups: Sequence[str], experiment: SearchExperiment, log: SearchLog, seed: int) -> Made:
    return _of_trees(fit_trees(log, seed, groups=groups, space=vectors_of(experiment.log, VectorSettings())))


def _blend(groups: Sequence[str], experiment: SearchExperiment, log: SearchLog, seed: int) -> Made:
    """CapsE's default recipe inside."""
    fitted = {"capse": _capse(experiment.log, seed)}
    space = vectors_of(experiment.log, VectorSettings())
    blend = fit_trees(log, seed, fitted=fitted, groups=groups, space=space)
    return _of_trees(blend, capse=SearchRecipe.resolve(model="capse").to_mapping())


def _of_trees(ranker: SP, **settings: Any) -> Made:
    model, space = ranker.trees, ranker.space
    resolved = {"lambdamart": to_mapping(model.settings), "vectors": space and to_mapping(space.settings), **settings}
    gains = {name: round(gain) for name, gain in list(model.gains().items())[:20]}
    return Made(ranker, resolved, {"validation_mrr": model.validation_mrr, "gains": gains})


MAKERS: dict[str, Maker] = {
    **dict.fromkeys(LIST_MODELS, _neural),
    "sp": partial(_trees, GROUPS),
    "blend": partial(_blend, GROUPS),
    "history": partial(_trees, HISTORY),
    "history-blend": partial(_blend, HISTORY),
}


@cache
def vectors_of(name: str, settings: VectorSettings) -> VectorSpace:
    """The vectors of a log, which all seeds share; those of the default settings are the topics of SP's profiles."""
    return build_vectors(find_log(name), settings)


@cache
def _capse(name: str, seed: int) -> CrossFitted:
    """Trained once for all blends."""
    recipe = SearchRecipe.resolve(model="capse")
    return cross_fit(find_log(name), partial(train_ranker, recipe=recipe, seed=seed, ranks="model"))


def train(log: SearchLog, recipe: SearchRecipe, space: VectorSpace) -> tuple[SearchRun, list[dict[str, Any]]]:
    """Train in a folder that is gone afterwards; the run, and what its metrics.jsonl said of each epoch."""
    with tempfile.TemporaryDirectory() as folder:
        run = fit_search(log, recipe, out=Path(folder, "run"), space=space)
        return run, RunFolder(Path(folder, "run")).read_metrics()


@cache
def find_log(name: str) -> SearchLog:
    folder = Path(os.environ.get("CAPSE_DATA", ".")) / name
    if not folder.is_dir():
        raise DataError(f"the log {name} is not in CAPSE_DATA", "set it to a folder that has it, or use --only")
    return open_log(folder)
