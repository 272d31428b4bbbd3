"""Recorded runs, ``<results>/runs/<experiment>/seed-<n>``, and figures over their seeds."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath
from typing import Any

from capse.errors import RunError
from capse.experiments.recipe import Recipe
from capse.experiments.refine_recipe import refine_recipe
from capse.runs.folder import RunFolder
from capse_paper.plans.graphs import Experiment
from capse_paper.recorded import checks
from capse_paper.recorded.comparisons import COMPARISON

EVALUATION = "evaluation.json"  # what a finished run has on its test set
RELEASED = "released.json"  # what a refined one has there with the candidates of M3GM's released evaluation
Table = Mapping[str, Mapping[str, float]]  # policy -> metric -> value
Ours = dict[str, dict[str, dict[str, Any]]]  # policy -> metric -> mean, std and seeds
_STARTS = ("start.run", "start.beside", "adversary.run")
_MAY_DIFFER = {"data", *_STARTS, "start.words", "start.names", "training.seed", "training.device"}


@dataclass(frozen=True)
class Record:
    """What is kept of one run."""

    folder: str  # below the folder of the results
    seed: int
    recipe: dict[str, Any]  # resolved
    results: dict[str, Any]
    history: list[dict[str, Any]]
    evaluation: dict[str, Any] | None  # on the test set
    released: dict[str, Any] | None  # the same with the candidates of M3GM's released evaluation
    comparison: dict[str, Any] | None  # with the run that the plan names, triple by triple


class Results:
    """A folder of recorded runs."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.records = cache(self._records)

    def _records(self, experiment: Experiment) -> list[Record]:
        """The finished runs of an experiment, by seed."""
        if not (self.folder / "runs").is_dir():
            raise RunError(
                f"there are no recorded runs in {self.folder / 'runs'}",
                "call this in a checkout of the repository, name a folder with --results, or train with --run",
            )
        folders = (self.folder / "runs" / experiment.name).glob("seed-*")
        finished = [folder for folder in folders if RunFolder(folder).results.is_file()]
        return sorted((self._record(experiment, folder) for folder in finished), key=lambda record: record.seed)

    def _record(self, experiment: Experiment, folder: Path) -> Record:
        run = RunFolder(folder)
        recipe, evaluation, comparison = run.read_recipe(), folder / EVALUATION, folder / COMPARISON
        released = folder / RELEASED
        checks.check_recipe(run.recipe, recipe)
        record = Record(
            folder=folder.relative_to(self.folder).as_posix(),
            seed=recipe["training"]["seed"],
            recipe=recipe,
            results=_json(run.results),
            history=run.read_metrics(),
            evaluation=_json(evaluation) if evaluation.is_file() else None,
            released=_json(released) if released.is_file() else None,
            comparison=_json(comparison) if comparison.is_file() else None,
        )
        checks.check_results(run.results, record.results, recipe["validation"]["metric"])
        checks.check_history(run.metrics, record.history)
        if record.evaluation is not None:
            checks.check_evaluation(evaluation, record.evaluation)
        if record.released is not None:
            checks.check_released(released, record.released)
        if record.comparison is not None:
            checks.check_comparison(comparison, record.comparison)
        data = {recipe["data"], (record.evaluation or recipe).get("dataset", recipe["data"])}
        if folder.name != f"seed-{record.seed}" or data != {experiment.dataset}:
            raise RunError(
                f"{folder} holds a run with seed {record.seed} on {' and '.join(sorted(data))}",
                f"only runs on {experiment.dataset} belong there, each in the folder of its seed",
            )
        return record


def departures(experiment: Experiment, record: Record) -> list[str]:
    """Where the settings of a recorded run are not those of the plan, as 'key: recorded, not planned'.

    Files, device and seed may differ, and a setting that did not exist when the run was made. What a run starts from
    may lie anywhere, but must be called like the run of the same seed that the plan names.
    """
    wanted, found = _planned(experiment), _flat(record.recipe)
    others = [
        f"{key}: {found[key]}, not {value}"
        for key, value in wanted.items()
        if key in found and key not in _MAY_DIFFER and found[key] != value
    ]
    for setting in _STARTS:
        start, name = found.get(setting), experiment.starts.get(setting)
        planned = f"{name}/seed-{experiment.seed_of(setting, record.seed)}" if name else None
        if (start and "/".join(PurePath(str(start)).parts[-2:])) != planned:
            others.append(f"{setting}: {start}, not {planned}")
    return others


def departing(results: Results, experiments: Iterable[Experiment]) -> list[str]:
    """A line for each recorded run that departs from the plan."""
    return [
        f"{record.folder} departs from the plan: {'; '.join(found)}"
        for experiment in experiments
        for record in results.records(experiment)
        if (found := departures(experiment, record))
    ]


def aggregate(tables: Mapping[int, Table]) -> Ours | None:
    """Mean and deviation over seeds of every figure; the deviation of a single seed is not known.

    >>> aggregate({0: {"realistic": {"mrr": 0.25}}, 1: {"realistic": {"mrr": 0.75}}})["realistic"]["mrr"]
    {'mean': 0.5, 'std': 0.3535533905932738, 'seeds': [0, 1]}
    """
    if not tables:
        return None
    seeds = list(tables)
    return {
        policy: {metric: _spread([tables[seed][policy][metric] for seed in seeds], seeds) for metric in metrics}
        for policy, metrics in tables[seeds[0]].items()
    }


def ours(records: Sequence[Record], pick: Callable[[Record], Table | None]) -> tuple[Ours | None, list[str]]:
    """What ``pick`` finds in each record, over seeds, and the runs where it found something."""
    found = {record: table for record, table in ((record.seed, pick(record)) for record in records) if table}
    return aggregate(found), [record.folder for record in records if record.seed in found]


def of_test_set(record: Record) -> Table | None:
    """The whole test set, both sides."""
    return record.evaluation["metrics"]["both"] if record.evaluation else None


def of_released(record: Record) -> Table | None:
    """The answers that M3GM's released evaluation keeps, both sides."""
    return record.released["metrics"]["both"] if record.released else None


def of_groups(kind: str, groups: Sequence[str], side: str) -> Callable[[Record], Table | None]:
    """Some groups of a breakdown together, each weighted by its size."""

    def pick(record: Record) -> Table | None:
        parts = record.evaluation["breakdowns"].get(kind, {}) if record.evaluation else {}
        chosen = [parts[group] for group in groups if group in parts]
        if len(chosen) <= 1:
            return chosen[0][side] if chosen else None
        total = sum(part["share"] for part in chosen)
        if not total:
            return None
        return {
            policy: {m: sum(part["share"] * part[side][policy][m] for part in chosen) / total for m in metrics}
            for policy, metrics in chosen[0][side].items()
        }

    return pick


def of_validation(epoch: int) -> Callable[[Record], Table | None]:
    """The validation set at a look during training, both sides."""
    return lambda record: next((line.get("validation") for line in record.history if line["epoch"] == epoch), None)


def _spread(values: list[float], seeds: list[int]) -> dict[str, Any]:
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "std": deviation, "seeds": seeds}


@cache
def _planned(experiment: Experiment) -> dict[str, Any]:
    if experiment.refines:  # the model and the data are those of the run that is refined
        described = {"data": experiment.dataset, "model": {}}
        refined = refine_recipe(described, experiment.recipe, overrides=experiment.overrides).to_mapping()
        return _flat({key: value for key, value in refined.items() if key not in ("data", "model")})
    recipe = Recipe.resolve(experiment.recipe, data=experiment.dataset, overrides=list(experiment.overrides))
    return _flat(recipe.to_mapping())


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    sections = {key: value if isinstance(value, Mapping) else {"": value} for key, value in values.items()}
    return {f"{name}.{key}".rstrip("."): value for name, section in sections.items() for key, value in section.items()}


def _json(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} is damaged", checks.REMEDY) from error
    return content
