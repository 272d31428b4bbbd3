"""Tuning within a time: what is tried, who goes on, stopping and going on, and that the minutes are heeded."""

from __future__ import annotations

import json

import pytest

import capse
from capse.errors import CapseError, RunError, SettingsError
from capse.experiments import halving, workers
from capse.experiments.automatic import choose
from capse.experiments.candidate_recipes import SHOWN, candidates, settings_of
from capse.experiments.fit import fit
from capse.experiments.halving import HalvingListener, tune_within
from capse.experiments.study import StudyFolder
from capse.graph.link_prediction.predictor import LinkPredictor

SMALL = ["model.dim=8"]


class Clock:
    """Goes on by a hundredth of a second whenever somebody looks at it, so that no busy machine changes a test."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        self.now += 0.01
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(halving, "time", clock)
    monkeypatch.setattr(halving, "LEAST_SECONDS", 0)
    monkeypatch.setattr(halving, "LEAST_EPOCHS", 0)
    monkeypatch.setattr(halving, "MOST_CANDIDATES", 9)
    return clock


class Watching(HalvingListener):
    """Keeps what it is told, and stops the study after so many candidates."""

    def __init__(self, most=None):
        self.trials, self.times, self.most = [], [], most

    def time(self, spent, total, what):
        self.times.append((spent, total))

    def trial(self, outcome, best):
        self.trials.append(outcome.trial)
        if len(self.trials) == self.most:
            raise KeyboardInterrupt


class TestCandidates:
    def test_the_first_is_what_would_be_trained_without_a_study(self, planted):
        recipes = candidates(planted, 27)
        assert recipes[0] == choose(planted)
        assert len(recipes) == 27
        assert all(one not in recipes[:n] for n, one in enumerate(recipes))
        assert {recipe.model_name for recipe in recipes} >= {"complex", "distmult", "transe", "conve"}
        assert recipes == candidates(planted, 27)

    def test_all_are_validated_alike_and_can_be_told_apart(self, planted):
        recipes = candidates(planted, 27)
        assert {recipe.validation for recipe in recipes} == {recipes[0].validation}
        assert all(set(settings_of(recipe)) == set(SHOWN) for recipe in recipes)

    def test_what_is_fixed_holds_in_all(self, planted):
        recipes = candidates(planted, 9, ["model.dim=8", "training.seed=3"])
        assert {(recipe.model.dim, recipe.training.seed) for recipe in recipes} == {(8, 3)}

    @pytest.mark.parametrize("model", ["distmult", "transe"])
    def test_a_model_can_be_fixed(self, planted, model):
        recipes = candidates(planted, 9, [f"model.name={model}"])
        assert {recipe.model_name for recipe in recipes} == {model}
        assert len(recipes) == 9


def test_the_best_third_goes_on_and_the_best_is_left_trained(planted, tmp_path):
    watching = Watching()
    outcomes = tune_within(planted, minutes=0.1, out=tmp_path / "study", overrides=SMALL, listener=watching)
    study = StudyFolder(tmp_path / "study")
    rungs = [watching.trials[:9], watching.trials[9:12], watching.trials[12:]]
    assert sorted(rungs[0]) == list(range(9))
    assert len(rungs[2]) == 1
    assert set(rungs[2]) <= set(rungs[1]) <= set(rungs[0])
    values = [outcome.value for outcome in outcomes]
    assert values == sorted(values, reverse=True)
    best = LinkPredictor.load(outcomes[0].run)
    assert capse.load_recipe(study.best).model == best.model.settings
    assert [json.loads(line)["trial"] for line in study.table.read_text().splitlines()] == [o.trial for o in outcomes]


def test_the_minutes_are_heeded(planted, tmp_path, clock):
    """Trainings without an end of their own are cut."""
    watching = Watching()
    endless = [*SMALL, "training.epochs=100000", "validation.patience=0"]
    tune_within(planted, minutes=0.1, out=tmp_path / "study", overrides=endless, listener=watching)
    assert 6 <= clock.now < 6.6
    state = json.loads((tmp_path / "study" / "halving.json").read_text())
    assert 6 <= state["spent"] < 6.6
    assert {total for _, total in watching.times} == {6.0}
    assert watching.times == sorted(watching.times)


@pytest.mark.parametrize("most", [1, 4, 10])
def test_a_study_that_was_stopped_goes_on(planted, tmp_path, most):
    stopped = Watching(most)
    with pytest.raises(KeyboardInterrupt):
        tune_within(planted, minutes=0.1, out=tmp_path / "study", overrides=SMALL, listener=stopped)
    spent = json.loads((tmp_path / "study" / "halving.json").read_text())["spent"]
    watching = Watching()
    outcomes = tune_within(out=tmp_path / "study", resume=True, listener=watching)
    assert sorted(set(stopped.trials + watching.trials)) == list(range(9))
    assert len(stopped.trials + watching.trials) <= 9 + 3 + 1 + 1  # one may have its time anew
    assert watching.times[0][0] >= spent
    assert watching.times[0][1] == 6.0
    assert outcomes[0].value is not None


def test_more_time_trains_the_best_one_further(planted, tmp_path):
    endless = [*SMALL, "training.epochs=100000", "validation.patience=0"]
    first = tune_within(planted, minutes=0.03, out=tmp_path / "study", overrides=endless)
    again = tune_within(minutes=0.06, out=tmp_path / "study", resume=True)
    epochs = {outcome.trial: outcome.epochs for outcome in first}
    assert [outcome.trial for outcome in again if outcome.epochs != epochs[outcome.trial]] == [first[0].trial]


def test_a_candidate_that_fails_is_passed_over(planted, tmp_path, monkeypatch):
    def broken(graph, recipe, **options):
        if recipe.regularizer.n3 > first.regularizer.n3:
            raise RunError("it broke", "try another")
        return fit(graph, recipe, **options)

    first = candidates(planted, 1)[0]
    monkeypatch.setattr(workers, "fit", broken)
    outcomes = tune_within(planted, minutes=0.05, out=tmp_path / "study", overrides=SMALL)
    assert {outcome.trial: outcome.error for outcome in outcomes}[2] == "it broke: try another"
    assert outcomes[0].error is None


def test_mistakes(planted, tmp_path):
    with pytest.raises(SettingsError, match="give some time"):
        tune_within(planted, minutes=0, out=tmp_path / "study")
    with pytest.raises(SettingsError, match="no data is named"):
        tune_within(out=tmp_path / "study")
    unvalidated = capse.Graph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    with pytest.raises(SettingsError, match="no validation triples"):
        tune_within(unvalidated, out=tmp_path / "study")
    with pytest.raises(CapseError, match=r"did you mean 'model\.dim'"):
        tune_within(planted, out=tmp_path / "study", overrides=["model.dimm=8"])
    assert list(tmp_path.iterdir()) == []
    tune_within(planted, minutes=0.01, out=tmp_path / "study", overrides=SMALL)
    with pytest.raises(RunError, match="other data"):
        tune_within("countries", out=tmp_path / "study", resume=True)
    with pytest.raises(SettingsError, match="fixed when a study begins"):
        tune_within(planted, out=tmp_path / "study", resume=True, overrides=["model.dim=9"])


def test_the_command_ends_with_a_table_and_a_page(planted, tmp_path, run_command):
    capse.save_graph(planted, tmp_path / "graph")
    options = ["--data", tmp_path / "graph", "--set", "model.dim=8", "--minutes", "0.05", "--out", tmp_path / "study"]
    status, output, _ = run_command("tune", *options)
    assert status == 0
    for word in ("the best recipe", "the best run", "study.html"):
        assert word in output
    page = (tmp_path / "study" / "study.html").read_text()
    assert "<svg" in page
    assert "The test set played no part" in page
    status, output, _ = run_command("tune", "--resume", "--out", tmp_path / "study", "--json")
    assert (status, json.loads(output)[0]["settings"]["model.dim"]) == (0, 8)
    for wrong in (["--jobs", "2"], ["--trials", "3"]):
        status, _, errors = run_command("tune", *options[:-1], tmp_path / "other", *wrong)
        assert (status, "about a grid" in errors) == (2, True)
    grid = tmp_path / "grid.yaml"
    grid.write_text("recipe: distmult\ngrid: {model.dim: [2]}\n")
    status, _, errors = run_command("tune", grid, *options[:-1], tmp_path / "other")
    assert (status, "without a grid" in errors) == (2, True)
    assert not (tmp_path / "other").exists()
