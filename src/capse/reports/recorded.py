"""Everything that a report says about a run, collected once and plain data from then on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capse.arrays import Float64s
from capse.errors import RunError, SettingsError
from capse.evaluation.metrics import METRICS, POLICIES, contributions
from capse.evaluation.ranks import Ranks
from capse.graph.link_prediction.evaluation import LinkPredictionResult
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.statistics import Statistics, describe
from capse.models import model_settings
from capse.reports.examples import Example, ask
from capse.runs.folder import RunFolder

Progress = Callable[[str, int, int], None]  # the run's name, ranks done, ranks to do


@dataclass(frozen=True)
class RecordedRun:
    """A run and its result on the test split."""

    name: str  # the model's, with the folder where two runs have the same model
    folder: Path
    recipe: dict[str, Any]  # resolved
    history: list[dict[str, Any]]  # the lines of metrics.jsonl
    results: dict[str, Any]  # results.json: what was chosen, and where it was trained
    graph: Statistics
    relation_names: dict[str, str]  # by label
    evaluation: LinkPredictionResult
    examples: tuple[Example, ...]

    @property
    def tied(self) -> float:
        """The share of questions where some wrong candidate has exactly the true one's score."""
        ranks = Ranks.concatenate([self.evaluation.heads, self.evaluation.tails])
        return float((ranks.equal > 0).mean())

    @property
    def reciprocal_ranks(self) -> Float64s:
        """What each test triple contributes to the realistic MRR: the mean of its two sides."""
        policy, metric = POLICIES.index("realistic"), list(METRICS).index("mrr")
        heads, tails = (contributions(ranks) for ranks in (self.evaluation.heads, self.evaluation.tails))
        mean: Float64s = ((heads + tails) / 2)[:, policy, metric]
        return mean


def record_runs(
    folders: Sequence[str | Path], *, wording: Mapping[str, str] | None = None, progress: Progress | None = None
) -> list[RecordedRun]:
    """Evaluate finished runs on the test split of the data they share; for ``wording`` see `examples.ask`."""
    runs: list[RecordedRun] = []
    for name, folder in run_names(folders).items():
        predictor = LinkPredictor.load(folder)
        run = RunFolder.open(folder)
        evaluation = predictor.evaluate(
            "test", progress=(lambda done, total, name=name: progress(name, done, total)) if progress else None
        )
        relations = predictor.graph.relations
        runs.append(
            RecordedRun(
                name=name,
                folder=folder,
                recipe=run.read_recipe(),
                history=run.read_metrics(),
                results=_results(run),
                graph=describe(predictor.graph),
                relation_names={label: relations.name(i) for i, label in enumerate(relations.labels)},
                evaluation=evaluation,
                examples=ask(predictor, evaluation, wording or {}),
            )
        )
        if runs[0].graph != runs[-1].graph:
            raise SettingsError(
                f"{runs[0].folder} and {folder} were trained on different data", "write a report for each"
            )
    return runs


def evaluations(runs: Sequence[RecordedRun]) -> dict[str, dict[str, Any]]:
    """What ``capse evaluate --json`` would print of each run, by its name."""
    return {run.name: run.evaluation.to_json() for run in runs}


def run_names(folders: Sequence[str | Path]) -> dict[str, Path]:
    """What to call each run: its model's name, with the folder where several have the same model."""
    paths = [Path(folder) for folder in dict.fromkeys(map(str, folders))]
    models = [type(model_settings(RunFolder.open(path).read_recipe()["model"])).__name__ for path in paths]
    short = len({path.name for path in paths}) == len(paths)
    return {
        model if models.count(model) == 1 else f"{model} ({path.name if short else path})": path
        for model, path in zip(models, paths, strict=True)
    }


def _results(run: RunFolder) -> dict[str, Any]:
    try:
        results: dict[str, Any] = json.loads(run.results.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{run.results} is missing or damaged", "finish the run with 'capse train --resume'") from error
    return results
