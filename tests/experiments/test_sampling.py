"""Drawn trials: the same again, from where a kill left off, and shared by those who use one storage."""

from __future__ import annotations

import dataclasses
import os
import sys
from contextlib import closing
from pathlib import Path

import pytest

from capse.errors import MissingExtraError, RunError
from capse.experiments.grid import load_grid
from capse.experiments.sampling import Sampling
from capse.experiments.study import Outcome, StudyFolder
from capse.experiments.tune import tune
from tests.experiments.studies import DRAWN, RATES, Stop, kept, quick, states


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_draws_from_the_ranges_and_the_same_again(small, tmp_path, sampler):
    search = {"sampler": sampler, "trials": 5, "seed": 3}
    first = tune(small, DRAWN, out=tmp_path / "first", search=search)
    assert sorted(outcome.trial for outcome in first) == [0, 1, 2, 3, 4]
    assert all(1e-4 <= outcome.settings["training.learning_rate"] <= 0.1 for outcome in first)
    assert {outcome.settings["loss.margin"] for outcome in first} <= {1.0, 2.0}
    assert len({outcome.settings["training.learning_rate"] for outcome in first}) == 5
    assert kept(tune(small, DRAWN, out=tmp_path / "second", search=search)) == kept(first)
    other = tune(small, DRAWN, out=tmp_path / "other", search=search | {"seed": 4})
    assert {str(outcome.settings) for outcome in other}.isdisjoint(str(outcome.settings) for outcome in first)


def test_a_stopped_study_goes_on_with_the_trial_that_was_under_way(small, tmp_path, state_of):
    search = {"sampler": "random", "trials": 3}
    whole = tune(small, DRAWN, out=tmp_path / "whole", search=search)
    with pytest.raises(KeyboardInterrupt):
        tune(small, DRAWN, out=tmp_path / "study", search=search, listener=Stop(1))
    assert kept(tune(out=tmp_path / "study", resume=True)) == kept(whole)
    assert states(tmp_path / "study", state_of) == states(tmp_path / "whole", state_of)


def test_more_trials_can_be_drawn_later(small, tmp_path):
    search = {"sampler": "random", "trials": 2}
    first = tune(small, DRAWN, out=tmp_path / "study", search=search)
    more = tune(out=tmp_path / "study", search={"trials": 4}, resume=True)
    assert len(more) == 4
    assert {o.trial: o.value for o in first}.items() <= {o.trial: o.value for o in more}.items()
    assert len(tune(out=tmp_path / "study", resume=True)) == 4
    with pytest.raises(RunError, match="begun with another sampler or seed"):
        tune(out=tmp_path / "study", search={"sampler": "tpe"}, resume=True)


def test_folders_share_a_storage(small, tmp_path):
    """As two machines do; the second finds the trials of the first, and trains none."""
    search = {"sampler": "random", "trials": 2, "storage": f"sqlite:///{tmp_path}/shared.db"}
    first = tune(small, DRAWN, out=tmp_path / "first", search=search)
    second = tune(small, DRAWN, out=tmp_path / "second", search=search)
    assert [outcome.value for outcome in second] == [outcome.value for outcome in first]
    assert all(outcome.run.endswith(f":{tmp_path}/first/trials/00{outcome.trial}") for outcome in second)
    assert (tmp_path / "second" / "best.yaml").read_text() == (tmp_path / "first" / "best.yaml").read_text()
    assert not list((tmp_path / "second").glob("trials/*"))


def test_a_failed_trial_is_kept_as_failed(small, tmp_path):
    grid = quick({"training.learning_rate": [1e30, 0.01]}, recipe="distmult")
    outcomes = tune(small, grid, out=tmp_path / "study", search={"sampler": "random", "trials": 6})
    assert len(outcomes) == 6
    assert {o.settings["training.learning_rate"] for o in outcomes if o.error is None} == {0.01}
    assert {o.settings["training.learning_rate"] for o in outcomes if o.error is not None} == {1e30}
    errors = {path: path.stat().st_mtime_ns for path in (tmp_path / "study" / "trials").glob("*.error")}
    assert kept(tune(out=tmp_path / "study", resume=True)) == kept(outcomes)
    assert {path: path.stat().st_mtime_ns for path in errors} == errors, "a failed trial was tried again"


def test_two_processes_may_tell_of_one_trial(small, tmp_path, monkeypatch):
    """One finds it trained before the other, which trained it, has said so; and then it does, in the middle."""
    grid = load_grid(DRAWN, search={"sampler": "random", "trials": 1})
    with (
        closing(Sampling(StudyFolder(tmp_path), grid, small)) as one,
        closing(Sampling(StudyFolder(tmp_path), grid, small)) as other,
    ):
        trial = one.claim()
        outcome = Outcome(trial.number, trial.settings, "mrr", 0.5, 2, 1, 3.0, str(tmp_path))
        write = one.storage.set_trial_user_attr

        def write_after_the_other(*arguments):
            other.tell(trial, outcome)
            write(*arguments)

        monkeypatch.setattr(one.storage, "set_trial_user_attr", write_after_the_other)
        one.tell(trial, dataclasses.replace(outcome, seconds=4.0))
        assert [(each.value, each.seconds) for each in one.outcomes()] == [(0.5, 3.0)]


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%3Fb", "{a}", "50%", "é b"])
def test_the_database_is_in_the_study_whatever_its_name(small, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    first = tune(small, DRAWN, out=name, search={"sampler": "random", "trials": 1})
    assert (tmp_path / name / "study.db").is_file()
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert tune(out=name, resume=True) == first


def test_the_database_is_closed_at_the_end(small, tmp_path):
    tune(small, DRAWN, out=tmp_path / "study", search={"sampler": "random", "trials": 1})
    with pytest.raises(KeyboardInterrupt):
        tune(out=tmp_path / "study", search={"trials": 2}, resume=True, listener=Stop(1))
    opened = {os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()}
    assert not [path for path in opened if path.startswith(str(tmp_path))]


def test_a_password_is_not_written_down(small, tmp_path):
    from capse.experiments.tune import _kept

    storage = "postgresql://me:secret@nowhere.invalid/studies"
    grid = load_grid(DRAWN, search={"sampler": "tpe", "trials": 2, "storage": storage})
    assert "secret" not in _kept(grid).to_yaml()
    assert "postgresql://me@nowhere.invalid/studies" in _kept(grid).to_yaml()


def test_without_optuna_one_line_says_what_to_install(small, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'capse\[tune\]'"):
        tune(small, DRAWN, out=tmp_path / "study", search={"sampler": "tpe", "trials": 2})
    assert not list(tmp_path.iterdir())
    assert len(tune(small, RATES, out=tmp_path / "study")) == 4  # a grid needs no Optuna
