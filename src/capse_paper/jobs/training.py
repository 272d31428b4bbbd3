"""Train the runs of a plan that are missing, and evaluate each on its test set.

A run is finished when it has its ``evaluation.json``; a finished one is never touched, and one that was stopped goes
on. Nothing but the plan's recipe decides the settings, and nothing but the validation set the epoch that is kept.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from capse.errors import RunError, SettingsError
from capse.experiments.engine import Listener
from capse.experiments.fit import fit
from capse.experiments.recipe import Recipe
from capse.experiments.refine_recipe import RefineRecipe, refine_recipe
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.runs.atomic import storage_errors, write_json
from capse.runs.folder import RunFolder
from capse_paper.jobs.refining import make_refined
from capse_paper.plans.graphs import Experiment, Plan, named, with_starts
from capse_paper.recorded.comparisons import write_comparison
from capse_paper.recorded.runs import EVALUATION


def seed_folder(results: str | Path, name: str, seed: int) -> Path:
    """Where the run of an experiment with a seed lies."""
    return Path(results) / "runs" / name / f"seed-{seed}"


@dataclass(frozen=True)
class Job:
    """A run that is to be trained and evaluated."""

    experiment: Experiment
    seed: int
    recipe: Recipe | RefineRecipe
    folder: Path
    against: Path | None = None  # the run that it is compared with
    refined: Path | None = None  # the run that is refined

    def run(self, listener: Listener | None = None) -> None:
        """Train and evaluate, unless another process does, or did since the job was made."""
        with _at_work(self.folder):
            if not (self.folder / EVALUATION).is_file():
                result = self._made(listener).evaluate("test")
                if self.against is not None:
                    name = f"{self.experiment.against}/{self.against.name}"
                    other = LinkPredictor.load(self.against, self.recipe.training.device)
                    write_comparison(self.folder, result, name, other.evaluate("test", breakdowns=False))
                write_json(self.folder / EVALUATION, result.to_json())

    def _made(self, listener: Listener | None) -> LinkPredictor:
        if isinstance(self.recipe, Recipe):
            return fit(self.experiment.dataset, self.recipe, out=self.folder, resume=True, listener=listener)
        assert self.refined is not None
        return make_refined(self.refined, self.recipe, self.folder, listener)


def missing_jobs(
    plan: Plan, chosen: Iterable[Experiment], out: str | Path, seeds: Sequence[int] | None = None
) -> list[Job]:
    """What is still to be done for the chosen experiments, in an order in which every start comes first."""
    jobs: list[Job] = []
    ordered = with_starts(plan, chosen)
    for experiment in ordered:
        for seed in _seeds(experiment, ordered, seeds):
            folder = seed_folder(out, experiment.name, seed)
            if not (folder / EVALUATION).is_file():
                _check_start(experiment, seed, out)
                against, refined = (
                    seed_folder(out, name, seed) if name else None for name in (experiment.against, experiment.refines)
                )
                recipe = _recipe(plan, experiment, seed, out)
                jobs.append(Job(experiment, seed, recipe, folder, against, refined))
    return jobs


def _seeds(experiment: Experiment, others: Iterable[Experiment], seeds: Sequence[int] | None) -> list[int]:
    """Those that are asked for, and those after them that another experiment begins with."""
    own = experiment.seeds if seeds is None else seeds
    again = any(other.beside == experiment.name and other.beside_next for other in others)
    return list(dict.fromkeys([*own, *(seed + 1 for seed in own if again)]))


def _recipe(plan: Plan, experiment: Experiment, seed: int, out: str | Path) -> Recipe | RefineRecipe:
    changes = [*experiment.overrides, f"training.seed={seed}"]
    if experiment.refines:
        base = _recipe(plan, named(plan, experiment.refines), seed, out).to_mapping()
        return refine_recipe(base, experiment.recipe, overrides=changes)
    values = Recipe.resolve(experiment.recipe, data=experiment.dataset, overrides=changes).to_mapping()
    paths = {setting: _data_file(experiment, file) for setting, file in experiment.files}
    starts = experiment.starts.items()
    paths |= {setting: seed_folder(out, name, experiment.seed_of(setting, seed)) for setting, name in starts}
    for setting, path in paths.items():  # not among the changes, which are YAML: a path may be anything
        section, key = setting.split(".")
        values[section][key] = str(path)
    return Recipe.from_mapping(values)


def _data_file(experiment: Experiment, file: str) -> Path:
    path = Path(os.environ.get("CAPSE_DATA", ".")) / file
    if not path.is_file():
        raise SettingsError(
            f"{experiment.name} needs {file}, which is not in CAPSE_DATA",
            "set CAPSE_DATA to a folder with it, or leave the experiment out with --only",
        )
    return path


def _check_start(experiment: Experiment, seed: int, out: str | Path) -> None:
    """Results that are kept without weights cannot be started from; a second training would not be what they show."""
    for name in experiment.needs:
        folder = seed_folder(out, name, seed)
        if (folder / EVALUATION).is_file() and not RunFolder(folder).model.is_file():
            raise RunError(
                f"{experiment.name} starts from {folder}, which is kept without its weights",
                "train both anew with another --out",
            )


@contextmanager
def _at_work(folder: Path) -> Iterator[None]:
    """Hold the folder of a seed, or raise if another process does. The hold ends with the process, however it ends.

    The lock is a file beside the folder, since training makes the folder as a whole, and goes when it is let go.
    """
    lock = folder.with_name(f".{folder.name}.lock")
    made = [parent for parent in list(folder.parents)[:3] if not parent.exists()]  # experiment, runs, results
    with storage_errors(lock):
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("a")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = lock.exists() and os.path.samestat(os.fstat(file.fileno()), lock.stat())
        except (BlockingIOError, FileNotFoundError):
            held = False
        if not held:  # by another process, or it was, when the file was opened
            raise RunError(f"another process is at work on {folder}", "wait until it is done, or choose another --out")
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
            with suppress(OSError):  # a run was put there
                for parent in made:
                    parent.rmdir()
