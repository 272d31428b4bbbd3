"""Try every trial of a grid, or trials drawn from it, and keep the best recipe.

Trials are compared on the validation set, each at its best epoch. A trial is an ordinary run made by `fit`, which
filters with training and validation triples only: nothing here depends on the test set.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from capse.errors import RunError, SettingsError, StorageError
from capse.experiments.grid import Grid, Trial, load_grid
from capse.experiments.sampling import Sampling, without_password
from capse.experiments.start import start_embeddings
from capse.experiments.study import Enumeration, Outcome, StudyFolder, TrialSource, data_source, graph_name, ranked
from capse.experiments.workers import End, train_here, train_in_processes
from capse.graph.dataset import Graph, load_graph
from capse.models import build_model
from capse.runs.atomic import atomic_folder, write_text
from capse.runs.devices import choose_device
from capse.runs.manifest import entering
from capse.training.objectives import build_objective
from capse.training.optimizers import build_optimizer


class StudyListener:
    """What a study tells whoever watches; override what is of interest."""

    def message(self, text: str) -> None:
        """A line about what is being done."""

    def progress(self, done: float, total: int) -> None:
        """So many trials are done, those under way counted by their share."""

    def trial(self, outcome: Outcome, best: Outcome) -> None:
        """A trial has ended; ``best`` is the best so far, perhaps the same."""


def tune(
    data: Graph | str | Path | None = None,
    grid: str | Path | Mapping[str, Any] | None = None,
    *,
    out: str | Path,
    overrides: list[str] | None = None,
    search: Mapping[str, Any] | None = None,
    jobs: int = 1,
    resume: bool = False,
    listener: StudyListener | None = None,
) -> list[Outcome]:
    """Train the trials of ``grid`` on ``data`` and leave a study in ``out``; returns how they ended, best first.

    ``grid`` is a YAML file, a shipped name or a mapping; ``overrides`` are settings fixed in every trial, ``search``
    what is to differ from the grid's own search section. A study that was stopped or killed goes on with ``resume``,
    for which ``data`` and ``grid`` may be left out: ended trials are kept, half-done ones go on from their checkpoints,
    and failed ones of an enumerated grid are tried again. Drawn ones stay failed.

    >>> import tempfile
    >>> quick = {"recipe": "distmult", "set": {"training.epochs": 1}, "grid": {"model.dim": [2, 8]}}
    >>> outcomes = tune("countries", quick, out=tempfile.mkdtemp() + "/study")
    >>> [outcome.settings for outcome in outcomes]
    [{'model.dim': 8}, {'model.dim': 2}]
    """
    if jobs < 1:
        raise SettingsError(f"--jobs is {jobs}", "choose 1 or more")
    study = StudyFolder(out)
    begun = study.is_begun(resume)
    if grid is None and not begun:
        raise SettingsError("no grid is named", "give a YAML file or the name of a shipped grid")
    resolved = load_grid(study.file if grid is None else grid, overrides, search)
    graph, resolved = _load_data(data, resolved, study, begun)
    if not begun:
        _check_input(resolved, graph)
        begun = not _begin(study, resolved, graph, resume)
    if begun:
        study.check_same(resolved, graph)
        _remember(study, resolved)
    source: TrialSource
    source = Enumeration(study, resolved) if resolved.search.sampler == "grid" else Sampling(study, resolved, graph)
    with closing(source):
        return _Session(study, resolved, source, listener or StudyListener()).run(graph, jobs)


class _Session:
    """The bookkeeping of a study while this process is at work on it."""

    def __init__(self, study: StudyFolder, grid: Grid, source: TrialSource, listener: StudyListener) -> None:
        self.study = study
        self.grid = grid
        self.source = source
        self.listener = listener
        self.shares: dict[int, float] = {}  # of the trials under way
        self.done = 0  # trials with a value, and those that failed in this session
        self.failed = 0

    def run(self, graph: Graph, jobs: int) -> list[Outcome]:
        self._publish()
        known = f", {self.done} of them trained before" if self.done else ""
        self.listener.message(f"{self.grid.total} trials{known}")
        if jobs == 1:
            train_here(self.study, graph, self.source.claim, self._progress, self._ended)
        else:
            train_in_processes(self.study, graph.name, jobs, self.source.claim, self._progress, self._ended)
        outcomes = self._publish()
        if outcomes and outcomes[0].value is None:
            raise RunError(f"all {len(outcomes)} trials failed, one of them with", outcomes[0].error or "")
        return outcomes

    def _publish(self) -> list[Outcome]:
        outcomes = ranked(self.source.outcomes(), self.grid)
        self.study.write_table(self.grid, outcomes)
        self.done = sum(outcome.value is not None for outcome in outcomes) + self.failed
        return outcomes

    def _progress(self, trial: Trial, share: float) -> None:
        self.shares[trial.number] = share
        self.listener.progress(self.done + sum(self.shares.values()), self.grid.total)

    def _ended(self, trial: Trial, end: End) -> None:
        self.shares.pop(trial.number, None)
        if end == "elsewhere":
            self.listener.message(f"trial {trial.number} is left to another process that is at work on it")
            return
        outcome = self.study.outcome(trial)
        assert outcome is not None, "a trial ends with results or an error"
        self.source.tell(trial, outcome)
        self.failed += outcome.value is None
        best = self._publish()[0]
        if end == "trained":
            self.listener.trial(outcome, best)
        self.listener.progress(self.done + sum(self.shares.values()), self.grid.total)


def _load_data(data: Graph | str | Path | None, grid: Grid, study: StudyFolder, begun: bool) -> tuple[Graph, Grid]:
    """The graph, and the grid with its recipe naming it such that `capse train` finds it."""
    named = grid.recipe.data
    if data is None and begun:
        stored = load_grid(study.file).recipe.data
        if named is None or stored in (named, data_source(named)):
            return study.load_graph(graph_name(stored)), replace(grid, recipe=replace(grid.recipe, data=stored))
    data = data or named
    if data is None:
        raise SettingsError("no data is named", "give --data with a dataset's name or a folder")
    graph = data if isinstance(data, Graph) else load_graph(data)
    return graph, replace(grid, recipe=replace(grid.recipe, data=data_source(data)))


def _check_input(grid: Grid, graph: Graph) -> None:
    """Raise what any trial would raise before its first step; models are built small, starts are tried once each."""
    if not len(graph.valid):
        raise SettingsError(f"{graph.name} has no validation triples", "trials are compared by them: add a valid file")
    seen = set()
    for trial in grid.samples():
        recipe = trial.recipe
        parts = (recipe.model, recipe.loss, recipe.negatives, recipe.regularizer, recipe.optimizer)
        if parts not in seen:
            small = build_model(recipe.model, 2, 1)
            build_optimizer(recipe.optimizer, small, recipe.training.learning_rate)
            build_objective(small, np.array([[0, 0, 1]]), recipe.loss, recipe.negatives, recipe.regularizer)
        start = (recipe.start, recipe.model_name, recipe.model.dim, recipe.model.reciprocal)
        if start not in seen:
            model = build_model(recipe.model, len(graph.entities), len(graph.relations))
            start_embeddings(model, graph, recipe.start, recipe.model.dim)
        if recipe.training.device != "auto" and recipe.training.device not in seen:
            choose_device(recipe.training.device)
        seen |= {parts, start, recipe.training.device}


def _begin(study: StudyFolder, grid: Grid, graph: Graph, resume: bool) -> bool:
    """Make the folder, whole or not at all; False if another process that shares the study has just made it."""
    try:
        with atomic_folder(study.path) as temporary:
            folder = StudyFolder(temporary)
            if grid.search.sampler != "grid":
                Sampling(folder, grid, graph).close()
            folder.write(_kept(grid).to_yaml(), graph)
    except StorageError:
        if not (resume and study.file.is_file()):
            raise
        return False
    return True


def _remember(study: StudyFolder, grid: Grid) -> None:
    """Keep what a resumed study may change: where it trains, and how many trials are drawn."""
    text = _kept(grid).to_yaml()
    if text != study.file.read_text(encoding="utf-8"):
        with study.claiming(), entering(study.path, study.file):
            write_text(study.file, text)


def _kept(grid: Grid) -> Grid:
    if grid.search.storage is None:
        return grid
    return replace(grid, search=replace(grid.search, storage=without_password(grid.search.storage)))
