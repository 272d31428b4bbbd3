"""Tuning within a time, without a grid: candidates are trained for a little while, the best third goes on, and so on.

Successive halving (Jamieson and Talwalkar, AISTATS 2016) by threes, in seconds on the clock. With 27 candidates and
15 minutes there are four rungs of about the same length:

    rung   candidates   each for
    1          27         8 s
    2           9        25 s
    3           3        75 s
    4           1       225 s or to its end

A candidate is an ordinary run in the study's folder. It stops where its time is over, is a run that is finished as far
as it got, and goes on from its checkpoint when it is given more time. Time that is not used goes to those after it.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from capse.errors import RunError, SettingsError
from capse.experiments.candidate_recipes import candidates, settings_of
from capse.experiments.engine import Listener, StepReport, StopTraining
from capse.experiments.grid import Trial
from capse.experiments.identity import identity
from capse.experiments.recipe import Recipe
from capse.experiments.study import Outcome, StudyFolder, data_source, graph_name
from capse.experiments.validation import ChosenMetric
from capse.experiments.workers import attempt
from capse.graph.dataset import Graph, as_graph
from capse.runs.atomic import atomic_folder, write_json
from capse.runs.formats import FORMAT, upgraded
from capse.runs.manifest import entering
from capse.runs.settings import load_yaml

DEFAULT_MINUTES = 15.0
MOST_CANDIDATES = 27
KEPT = 3  # one in so many goes on
LEAST_SECONDS = 3.0  # of a candidate in the first rung
LEAST_EPOCHS = 5  # that a candidate should have time for in it; validation takes some of that
FIRST_SHARE = 1 / 20  # of the time, for the first candidate, which shows how long an epoch takes
_TOO_SLOW = 3  # times its seconds without a validation, and a candidate is given up
_SAVE_SECONDS = 5.0


class HalvingListener:
    """What tells whoever watches; override what is of interest."""

    def message(self, text: str) -> None:
        """A line about what is being done."""

    def time(self, spent: float, total: float, what: str) -> None:
        """So many of the seconds are spent; ``what`` is being trained."""

    def trial(self, outcome: Outcome, best: Outcome) -> None:
        """A candidate's time is over for now; ``best`` is the best so far, perhaps the same."""


@dataclass
class State:
    """Where a study stands; in halving.json."""

    seconds: float  # that there are in all
    spent: float = 0.0
    planned: bool = False  # whether it is known how many candidates there is time for
    rung: int = 0
    rungs: int = 1
    waiting: list[int] = field(default_factory=list)  # candidates of this rung that have not had their time
    through: list[int] = field(default_factory=list)  # those that have
    ended: list[int] = field(default_factory=list)  # of all rungs, those whose training is over


def tune_within(
    data: Graph | str | Path | None = None,
    *,
    minutes: float | None = None,
    out: str | Path,
    overrides: list[str] | None = None,
    resume: bool = False,
    listener: HalvingListener | None = None,
) -> list[Outcome]:
    """Find a model and settings for a graph within so many minutes, 15 by default; returns the candidates, best first.

    ``overrides`` are settings that all candidates have. A study that was stopped or killed goes on with ``resume``, for
    which all else may be left out, with the time that is left; other ``minutes`` give it more, or less.

    >>> import tempfile
    >>> outcomes = tune_within("countries", minutes=0.02, out=tempfile.mkdtemp() + "/study", overrides=["model.dim=8"])
    >>> outcomes[0].settings["model.dim"]
    8
    """
    if minutes is not None and not minutes > 0:
        raise SettingsError(f"--minutes is {minutes:g}", "give some time")
    study = StudyFolder(out)
    if study.is_begun(resume):
        if overrides:
            raise SettingsError("settings are fixed when a study begins", "leave out --set, or choose another --out")
        graph = _same_graph(study, data)
    elif data is None:
        raise SettingsError("no data is named", "give --data with a dataset's name or a folder")
    else:
        graph = as_graph(data)
        _begin(study, graph, data_source(data), overrides or [])
    with study.at_work(0) as held:
        if not held:
            raise RunError(f"another process is at work on {study.path}", "wait for its end, or choose another --out")
        return _Session(study, graph, load_candidates(study), minutes, listener or HalvingListener()).run()


def is_halving(study: StudyFolder) -> bool:
    """Whether the study in a folder was begun without a grid."""
    if not study.file.is_file():
        return False
    study.check()
    return "candidates" in load_yaml(study.file.read_text(encoding="utf-8"), str(study.file))


def load_candidates(study: StudyFolder) -> list[Recipe]:
    values = upgraded(load_yaml(study.file.read_text(encoding="utf-8"), str(study.file)), str(study.file))
    return [Recipe.from_mapping(one) for one in values["candidates"]]


def _same_graph(study: StudyFolder, data: Graph | str | Path | None) -> Graph:
    """The graph that the study was begun with; refuses another one."""
    stored = study.load_graph(graph_name(load_candidates(study)[0].data))
    if data is not None and list(identity(as_graph(data))) != list(identity(stored)):
        raise RunError(f"the study in {study.path} was begun with other data", "resume it with that, or without --data")
    return stored


def _begin(study: StudyFolder, graph: Graph, source: str, overrides: list[str]) -> None:
    if not len(graph.valid):
        raise SettingsError(f"{graph.name} has no validation triples", "trials are compared by them: add a valid file")
    recipes = [replace(one, data=source) for one in candidates(graph, MOST_CANDIDATES, overrides)]
    if not (recipes[0].validation.every and recipes[0].training.epochs):
        raise SettingsError("nothing would be validated", "set validation.every and training.epochs to 1 or more")
    values = {"format": FORMAT, "candidates": [recipe.to_mapping() for recipe in recipes]}
    with atomic_folder(study.path) as temporary:
        StudyFolder(temporary).write(yaml.safe_dump(values, sort_keys=False, allow_unicode=True), graph)


class _Session:
    """A study while this process is at work on it."""

    def __init__(
        self, study: StudyFolder, graph: Graph, recipes: list[Recipe], minutes: float | None, listener: HalvingListener
    ) -> None:
        self.study, self.graph, self.listener = study, graph, listener
        self.trials = [Trial(n, settings_of(recipe), recipe) for n, recipe in enumerate(recipes)]
        self.file = study.path / "halving.json"
        self.minimised = ChosenMetric.named(recipes[0].validation.metric).metric == "mr"
        self.state = State(60 * DEFAULT_MINUTES)
        if self.file.is_file():
            self.state = State(**json.loads(self.file.read_text(encoding="utf-8")))
        if minutes is not None:
            self.state.seconds = 60 * minutes
        self.before = self.state.spent
        self.started = self.saved = time.monotonic()

    @property
    def spent(self) -> float:
        return self.before + time.monotonic() - self.started

    def run(self) -> list[Outcome]:
        try:
            self._climb()
        finally:
            self._save()
        outcomes = self.outcomes()
        if not outcomes or outcomes[0].value is None:
            said = outcomes[0].error if outcomes else None
            raise RunError("no candidate was validated within the time", said or "give more --minutes")
        return outcomes

    def _climb(self) -> None:
        state = self.state
        if not state.planned:
            self._first()
        if not state.waiting and state.rung + 1 == state.rungs:  # more time was given to a study that had ended
            state.waiting, state.through = state.through, []
        while self.spent < self.state.seconds:
            while state.waiting and self.spent < self.state.seconds:
                self._train(state.waiting[0], self._share())
            if state.waiting or state.rung + 1 >= state.rungs:
                return
            ranked = [outcome.trial for outcome in self.outcomes() if outcome.trial in state.through]
            state.rung, state.through = state.rung + 1, []
            state.waiting = ranked[: max(1, len(ranked) // KEPT)]
            self.listener.message(f"rung {state.rung + 1} of {state.rungs}: {len(state.waiting)} go on")

    def _first(self) -> None:
        """Train the candidate that would be trained without a study, and see how many others there is time for."""
        self.state.waiting, self.state.through = [0], []
        self._train(0, FIRST_SHARE * self.state.seconds, patient=True)
        outcome = self.study.outcome(self.trials[0])
        least = math.inf
        if outcome and outcome.epochs and outcome.seconds is not None:
            least = max(LEAST_SECONDS, LEAST_EPOCHS * outcome.seconds / outcome.epochs)
        count, rungs = 1, 1
        while count * KEPT <= MOST_CANDIDATES and count * KEPT * (rungs + 1) * least <= self.state.seconds:
            count, rungs = count * KEPT, rungs + 1
        count = min(count, len(self.trials))
        self.state.planned, self.state.rungs, self.state.waiting = True, rungs, list(range(1, count))
        if count == 1:  # it goes on to its end
            self.state.waiting, self.state.through = [0], []
        self._save()
        self.listener.message(f"{count} candidate{'s' * (count > 1)}, rung 1 of {rungs}")

    def _share(self) -> float:
        """Seconds for the next candidate: what is left, shared evenly by rungs and within this one by candidates."""
        state = self.state
        of_rung = len(state.waiting) / (len(state.waiting) + len(state.through))
        later = state.rungs - state.rung - 1
        return (self.state.seconds - self.spent) * of_rung / (of_rung + later) / len(state.waiting)

    def _train(self, number: int, seconds: float, patient: bool = False) -> None:
        trial, state = self.trials[number], self.state
        if number not in state.ended:
            share = _Share(seconds, self._has_value(trial), patient, lambda: self._tick(trial))
            attempt(self.study, self.graph, trial, share)
            if not share.stopped:
                state.ended.append(number)
        state.waiting.remove(number)
        state.through.append(number)
        self._save()
        outcome = self.study.outcome(trial)
        if outcome:
            self.listener.trial(outcome, self.outcomes()[0])

    def _has_value(self, trial: Trial) -> bool:
        outcome = self.study.outcome(trial)
        return outcome is not None and outcome.value is not None

    def _tick(self, trial: Trial) -> None:
        what = f"candidate {trial.number}, rung {self.state.rung + 1} of {self.state.rungs}"
        self.listener.time(min(self.spent, self.state.seconds), self.state.seconds, what)
        if time.monotonic() - self.saved > _SAVE_SECONDS:
            self._save()

    def _save(self) -> None:
        self.saved = time.monotonic()
        self.state.spent = self.spent
        with entering(self.study.path, self.file):
            write_json(self.file, asdict(self.state))

    def outcomes(self) -> list[Outcome]:
        """How the candidates did that were trained, best first; also written into the folder."""
        found = [outcome for trial in self.trials if (outcome := self.study.outcome(trial))]
        sign = 1 if self.minimised else -1
        found.sort(key=lambda o: (o.value is None, sign * (o.value or 0.0), o.trial))
        if found:
            best = self.trials[found[0].trial].recipe if found[0].value is not None else None
            self.study.write_outcomes(found, best)
        return found


class _Share(Listener):
    """Ends a training when its seconds are over, but not before its first validation."""

    def __init__(self, seconds: float, compared: bool, patient: bool, tick: Callable[[], None]) -> None:
        self.seconds, self.compared, self.patient, self.tick = seconds, compared, patient, tick
        self.started = time.monotonic()
        self.stopped = False

    def step(self, report: StepReport) -> None:
        self.tick()
        elapsed = time.monotonic() - self.started
        if self.compared and elapsed >= self.seconds:
            self.stopped = True
            raise StopTraining
        if not self.patient and not self.compared and elapsed > _TOO_SLOW * self.seconds:
            raise RunError(f"not one validation in {elapsed:.0f} s", "give more --minutes")

    def epoch(self, record: dict[str, Any]) -> None:
        self.compared = self.compared or "validation" in record
