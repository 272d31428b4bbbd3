"""A study's folder: what is in it, who is at work on which trial, and how its trials ended."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, Protocol

from capse.errors import RunError
from capse.experiments.fit import fingerprint
from capse.experiments.grid import Grid, Trial, load_grid
from capse.experiments.recipe import Recipe
from capse.graph.benchmarks import dataset_names
from capse.graph.dataset import Graph, load_graph
from capse.graph.link_prediction.predictor import save_run_graph
from capse.graph.vocabulary import Vocabulary
from capse.runs.atomic import storage_errors, write_text
from capse.runs.folder import RunFolder, is_begun
from capse.runs.manifest import check_files, write_manifest

_CLAIMING = 1 << 40  # a byte of the lock file beyond those of the trials


@dataclass(frozen=True)
class Outcome:
    """How a trial ended: with a value, or with an error in place of it."""

    trial: int
    settings: dict[str, Any]
    metric: str
    value: float | None  # of the best epoch, on the validation set
    epochs: int | None
    best_epoch: int | None
    seconds: float | None  # of training
    run: str
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        values = asdict(self)
        if self.error is None:
            del values["error"]
        return values


class TrialSource(Protocol):
    """Where the trials of a study come from, and where it is kept how they ended."""

    def claim(self) -> Trial | None:
        """The next trial to train; None when there is none left."""

    def tell(self, trial: Trial, outcome: Outcome) -> None:
        """A trial has ended."""

    def outcomes(self) -> list[Outcome]:
        """How the trials ended that have."""

    def close(self) -> None:
        """Let go of what it has open."""


class StudyFolder:
    """``study.yaml``, ``graph/``, ``vocabulary/``, ``manifest.json`` (their checksums), ``trials/NNN`` (a run each;
    ``NNN.error`` says why one failed), ``trials.jsonl`` (how they ended, best first), ``best.yaml``, ``halving.json``
    where there is no grid, and ``study.db`` where trials are drawn."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.file = self.path / "study.yaml"
        self.trials = self.path / "trials"
        self.table = self.path / "trials.jsonl"
        self.best = self.path / "best.yaml"
        self.database = self.path / "study.db"
        self.lock = self.path / ".lock"

    def run(self, number: int) -> RunFolder:
        return RunFolder(self.trials / f"{number:03}")

    def error(self, number: int) -> Path:
        return self.trials / f"{number:03}.error"

    def is_begun(self, resume: bool) -> bool:
        """Whether a study was begun here; refuses to overwrite one, or anything else, and one that is damaged."""
        begun = is_begun(self.path, self.file, "study", resume)
        if begun:
            self.check()
        return begun

    def check(self) -> None:
        """Refuse a study of which a file is not as it was written."""
        check_files(self.path, required=False)

    def write(self, said: str, graph: Graph) -> None:
        """Write all that a resumed study and its processes need; ``said`` is what was asked for, as YAML."""
        save_run_graph(RunFolder(self.path), graph)
        write_text(self.file, said)
        write_manifest(self.path)

    def load_graph(self, name: str) -> Graph:
        """The graph that the study was begun with, under the name it was trained by."""
        run = RunFolder(self.path)
        if not run.graph.is_dir():
            raise RunError(f"{run.graph} is missing", "restore it, or begin another study")
        entities, relations = (
            Vocabulary.load(run.vocabulary / f"{kind}.parquet") for kind in ("entities", "relations")
        )
        return replace(load_graph(run.graph, (entities, relations)), name=name)

    def check_same(self, grid: Grid, graph: Graph) -> None:
        """Refuse a grid or data other than those the study was begun with."""
        stored = load_grid(self.file)
        there = self.load_graph(graph.name)
        name = graph_name(stored.recipe.data)
        parts = {
            f"data called {name!r}, not {graph.name!r}": (name, graph.name),
            "other values in its grid": (stored.space, grid.space),
            "another sampler or seed": (
                (stored.search.sampler, stored.search.seed),
                (grid.search.sampler, grid.search.seed),
            ),
            "another recipe": (identity(stored, graph), identity(grid, graph)),
            f"other data called {graph.name!r}": (identity(grid, there), identity(grid, graph)),
        }
        for what, (before, now) in parts.items():
            if before != now:
                raise RunError(
                    f"the study in {self.path} was begun with {what}",
                    "resume it with the grid, options and data it was begun with, or choose another --out",
                )

    @contextmanager
    def at_work(self, number: int) -> Iterator[bool]:
        """Hold a trial, or give False if another process holds it. The hold ends with the process, however it ends."""
        with self._lock_file() as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
                held = True
            except (BlockingIOError, PermissionError):
                held = False
            yield held

    @contextmanager
    def claiming(self) -> Iterator[None]:
        """Wait until no other process is choosing its next trial."""
        with self._lock_file() as file:
            fcntl.lockf(file, fcntl.LOCK_EX, 1, _CLAIMING)
            yield

    def _lock_file(self) -> IO[str]:
        """One byte is locked for each trial. A process must not open it twice: closing lets go of all it has locked."""
        with storage_errors(self.lock):
            return self.lock.open("a")

    def outcome(self, trial: Trial) -> Outcome | None:
        """How a trial ended, as its run says; None if it has not."""
        run, metric = self.run(trial.number), trial.recipe.validation.metric
        if run.results.is_file():
            value, epochs, best_epoch, seconds = _read_results(run, metric)
            said = None if value is not None else "it was never compared with the validation set"
            return Outcome(
                trial.number, trial.settings, metric, value, epochs, best_epoch, seconds, str(run.path), said
            )
        error = self.error(trial.number)
        if error.is_file():
            said = error.read_text(encoding="utf-8", errors="replace").strip() or "it is not known why"
            return Outcome(trial.number, trial.settings, metric, None, None, None, None, str(run.path), said)
        return None

    def write_table(self, grid: Grid, outcomes: Sequence[Outcome]) -> None:
        """Write how the trials ended, best first, and the recipe of the best."""
        found = bool(outcomes) and outcomes[0].value is not None
        self.write_outcomes(outcomes, grid.trial(0, outcomes[0].settings).recipe if found else None)

    def write_outcomes(self, outcomes: Sequence[Outcome], best: Recipe | None) -> None:
        write_text(self.table, "".join(json.dumps(outcome.to_json()) + "\n" for outcome in outcomes))
        if best is not None:
            write_text(self.best, best.to_yaml())


class Enumeration:
    """Every combination of a grid, in order."""

    def __init__(self, study: StudyFolder, grid: Grid) -> None:
        self.study = study
        self.trials = grid.trials()
        self._left = (trial for trial in self.trials if not study.run(trial.number).results.is_file())
        self._ended: dict[int, Outcome] = {}  # those with a value: they stay as they are, and are read once

    def claim(self) -> Trial | None:
        return next(self._left, None)

    def tell(self, trial: Trial, outcome: Outcome) -> None:
        """The trial's own folder says it all."""
        if outcome.value is not None:
            self._ended[trial.number] = outcome

    def outcomes(self) -> list[Outcome]:
        """Those of all processes; one that failed may be tried again by another, and is read anew."""
        for trial in self.trials:
            if trial.number not in self._ended and (outcome := self.study.outcome(trial)):
                self._ended[trial.number] = outcome
        found = [self._ended[trial.number] for trial in self.trials if trial.number in self._ended]
        self._ended = {outcome.trial: outcome for outcome in found if outcome.value is not None}
        return found

    def close(self) -> None:
        """Nothing is open."""


def data_source(data: Graph | str | Path) -> str:
    """What `capse train --data` finds a study's data by, wherever it is called; the name of what is in memory."""
    if isinstance(data, Graph):
        return data.name
    return str(data) if str(data) in dataset_names() else str(Path(data).resolve())


def graph_name(source: str | None) -> str:
    """The name of the graph that a study's recipe names: its own, or that of the folder it was read from.

    >>> graph_name("wn18rr"), graph_name("/data/mine")
    ('wn18rr', 'mine')
    """
    path = Path(source or "graph")
    return path.name if path.is_absolute() else str(source or "graph")


def identity(grid: Grid, graph: Graph) -> str:
    """Changes with anything in the recipe or the data that changes the weights of a trial."""
    return fingerprint(replace(grid.recipe, data=graph.name), graph)


def ranked(outcomes: Sequence[Outcome], grid: Grid) -> list[Outcome]:
    """Best first, failed trials last; the earlier trial wins a tie."""
    sign = 1 if grid.minimised else -1
    return sorted(outcomes, key=lambda o: (o.value is None, sign * (o.value or 0.0), o.trial))


def _read_results(run: RunFolder, metric: str) -> tuple[float | None, int, int, float]:
    """Value, epochs, best epoch and seconds of a run that has ended."""
    try:
        results = json.loads(run.results.read_text(encoding="utf-8"))
        value = results["best_validation"][metric]
        return (
            None if value is None else float(value),
            int(results["epochs"]),
            int(results["best_epoch"]),
            float(results["training_seconds"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{run.results} is damaged", "delete it: --resume makes it anew from the checkpoint") from error
