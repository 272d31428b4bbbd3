"""Trials drawn by Optuna, which keeps them in a database that many processes and machines can share.

A draw depends on the seed, the trial's number and what is known of other trials, not on a generator's state: a study
that goes on after a kill does not draw again what it drew before, and processes that share one draw different trials.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from capse.errors import MissingExtraError, SettingsError, StorageError
from capse.experiments.grid import Grid, Range, Trial
from capse.experiments.study import Outcome, StudyFolder, identity
from capse.graph.dataset import Graph
from capse.runs.settings import to_mapping

_WAIT_SECONDS = 60  # for a database that another process writes to


class Sampling:
    """Trials drawn at random or by a tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011)."""

    def __init__(self, folder: StudyFolder, grid: Grid, graph: Graph) -> None:
        """Open the study in its storage, making it if need be; the same grid and data find the same study."""
        self.optuna = _optuna()
        self.folder = folder
        self.grid = grid
        self.local = grid.search.storage is None
        self.shown = without_password(grid.search.storage or str(folder.database))
        with self._errors():
            self.storage = self._open(grid.search.storage)
            try:
                self.study = self.optuna.create_study(
                    study_name=_name(grid, graph),
                    storage=self.storage,
                    sampler=self._sampler(0),
                    direction="minimize" if grid.minimised else "maximize",
                    load_if_exists=True,
                )
            except BaseException:
                self.close()
                raise
        self._left = self._left_behind()

    def close(self) -> None:
        self.storage.remove_session()
        self.storage.engine.dispose()

    def claim(self) -> Trial | None:
        """A trial that a killed process left behind, or a new one."""
        with self.folder.claiming(), self._errors():
            drawn = next(self._left, None)
            if drawn is None:
                if len(self.study.get_trials(deepcopy=False)) >= self.grid.total:
                    return None
                drawn = self.study.ask()
                if drawn.number >= self.grid.total:  # another process was faster
                    self.study.tell(drawn, state=self.optuna.trial.TrialState.FAIL)
                    return None
            # A folder here says that this study asked for the trial, and may go on with it after a kill.
            self.folder.run(drawn.number).path.mkdir(parents=True, exist_ok=True)
            self.study.sampler = self._sampler(drawn.number)
            settings = {key: _suggest(drawn, key, values) for key, values in self.grid.space.items()}
        return self.grid.trial(drawn.number, settings)

    def tell(self, trial: Trial, outcome: Outcome) -> None:
        """A trial has ended, unless a process that found it trained was faster to say so."""
        with self._errors(), suppress(self.optuna.exceptions.UpdateFinishedTrialError):
            kept = replace(outcome, run=f"{socket.gethostname()}:{self.folder.run(trial.number).path.resolve()}")
            trial_id = self.storage.get_trial_id_from_study_id_trial_number(self._study_id(), trial.number)
            self.storage.set_trial_user_attr(trial_id, "outcome", to_mapping(kept))
            failed = self.optuna.trial.TrialState.FAIL if outcome.value is None else None
            self.study.tell(trial.number, outcome.value, state=failed, skip_if_finished=True)

    def outcomes(self) -> list[Outcome]:
        """Those of all processes and machines; a run of this folder is named as usual, others with their machine."""
        with self._errors():
            trials = self.study.get_trials(deepcopy=False)
        found = []
        for trial in trials:
            if trial.number < self.grid.total and trial.state.is_finished() and "outcome" in trial.user_attrs:
                outcome = Outcome(**trial.user_attrs["outcome"])
                here = self.folder.run(trial.number).path
                found.append(replace(outcome, run=str(here)) if here.is_dir() else outcome)
        return found

    def _left_behind(self) -> Iterator[Any]:
        """Trials that were begun here and have not ended; one that is being trained says so when it is claimed."""
        state = self.optuna.trial.TrialState
        for trial in self.study.get_trials(deepcopy=False, states=[state.RUNNING]):
            if trial.number < self.grid.total and (self.local or self.folder.run(trial.number).path.is_dir()):
                trial_id = self.storage.get_trial_id_from_study_id_trial_number(self._study_id(), trial.number)
                yield self.optuna.trial.Trial(self.study, trial_id)

    def _study_id(self) -> int:
        return int(self.storage.get_study_id_from_name(self.study.study_name))

    def _sampler(self, number: int) -> Any:
        seed = int(np.random.SeedSequence((self.grid.search.seed, number)).generate_state(1)[0])
        samplers = self.optuna.samplers
        return (samplers.TPESampler if self.grid.search.sampler == "tpe" else samplers.RandomSampler)(seed=seed)

    def _open(self, url: str | None) -> Any:
        from sqlalchemy.exc import IntegrityError, ProgrammingError

        if url is None:  # a path is no URL, in which ? and { mean something; an absolute one is none for SQLite either
            path = self.folder.database.resolve()
            connect = partial(sqlite3.connect, path, timeout=_WAIT_SECONDS, check_same_thread=False)
            return self.optuna.storages.RDBStorage("sqlite:///study.db", engine_kwargs={"creator": connect})
        if not re.match(r"\w+(\+\w+)?://", url):
            raise SettingsError(f"search.storage is {self.shown!r}", "write a URL such as postgresql://host/database")
        url = re.sub(r"^postgres(ql)?://", "postgresql+psycopg://", url)
        options = {"connect_args": {"timeout": _WAIT_SECONDS}} if url.startswith("sqlite") else {}
        try:
            try:
                return self.optuna.storages.RDBStorage(url, engine_kwargs=options)
            except (IntegrityError, ProgrammingError):  # another machine is making the tables at this moment
                time.sleep(1)
                return self.optuna.storages.RDBStorage(url, engine_kwargs=options)
        except ImportError as error:
            raise MissingExtraError(f"the storage {self.shown}", "tune") from error

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """What goes wrong with the database, in one line."""
        import sqlalchemy.exc

        try:
            yield
        except (sqlalchemy.exc.SQLAlchemyError, self.optuna.exceptions.OptunaError) as error:
            said = str(error.__cause__ or error).strip() or type(error).__name__
            reason = said.splitlines()[0]
            raise StorageError(f"cannot use the storage {self.shown} ({reason})", "check that it is there") from error


def without_password(url: str) -> str:
    """
    >>> without_password("postgresql://me:secret@host/studies")
    'postgresql://me@host/studies'
    """
    return re.sub(r"(://[^:/@]*):[^/]*@", r"\1@", url)


def _name(grid: Grid, graph: Graph) -> str:
    """The study's name in a shared storage: it changes with whatever must be the same for all who share it."""
    space = {key: to_mapping(values) if isinstance(values, Range) else values for key, values in grid.space.items()}
    parts = [identity(grid, graph), space, grid.search.sampler, grid.search.seed]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
    return f"{graph.name}-{grid.recipe.model_name}-{digest}"


def _suggest(trial: Any, key: str, values: tuple[Any, ...] | Range) -> Any:
    if isinstance(values, tuple):
        return trial.suggest_categorical(key, values)
    suggest = trial.suggest_int if isinstance(values.low, int) else trial.suggest_float
    return suggest(key, values.low, values.high, log=values.log)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError("the sampler random or tpe", "tune") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
