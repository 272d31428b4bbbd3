"""Studies: the best recipe, going on after a stop, failures, and a test set that plays no part."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import yaml

from capse.errors import RunError, SettingsError
from capse.experiments import study
from capse.experiments.fit import fit
from capse.experiments.recipe import Recipe
from capse.experiments.study import StudyFolder
from capse.experiments.tune import tune
from capse.graph.dataset import Graph
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.runs.folder import RunFolder
from tests.experiments.studies import QUICK, RATES, Stop, kept, quick, states


def test_finds_what_was_planted_and_its_recipe_trains_the_same_run(planted, tmp_path):
    """With a rate of 1e-6 nothing is learnt in 40 epochs, with 0.02 the hidden markets are found."""
    settings = {"model.dim": 16, "training.epochs": 40, "validation.every": 10, "validation.patience": 0}
    grid = quick({"training.learning_rate": [1e-6, 0.02]}, set=QUICK | settings, metric="tail.mrr")
    best, worst = outcomes = tune(planted, grid, out=tmp_path / "study")
    assert best.settings == {"training.learning_rate": 0.02}
    assert best.value > 0.8 > 0.2 > worst.value
    assert (best.trial, best.run, best.metric) == (1, str(tmp_path / "study" / "trials" / "001"), "tail.mrr")
    assert LinkPredictor.load(best.run).evaluate("test").metrics["tail"]["realistic"]["mrr"] > 0.8

    again = fit(planted, str(tmp_path / "study" / "best.yaml"), out=tmp_path / "again")
    assert again.folder.model.read_bytes() == StudyFolder(tmp_path / "study").run(1).model.read_bytes()
    table = (tmp_path / "study" / "trials.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in table] == [outcome.to_json() for outcome in outcomes]
    assert list(outcomes[0].to_json()) == [
        "trial", "settings", "metric", "value", "epochs", "best_epoch", "seconds", "run",
    ]  # fmt: skip


def test_the_value_is_that_of_the_run_s_best_epoch(small, tmp_path):
    for outcome in tune(small, {**RATES, "metric": "mr"}, out=tmp_path / "study"):
        validations = RunFolder(outcome.run).read_metrics()
        values = [record["validation"]["realistic"]["mr"] for record in validations]
        assert outcome.value == min(values)
        assert (outcome.best_epoch, outcome.epochs) == (1 + values.index(min(values)), 2)


def test_a_low_mean_rank_is_better(small, tmp_path):
    values = [outcome.value for outcome in tune(small, {**RATES, "metric": "mr"}, out=tmp_path / "study")]
    assert values == sorted(values)
    assert values[0] < values[-1]


def test_the_test_set_plays_no_part(small, tmp_path, state_of):
    """Without test triples, or with garbage in their place, the outcome is bit for bit the same."""
    garbage = np.random.default_rng(5).integers(0, [20, 3, 20], (500, 3), dtype=np.int32)
    found = {}
    for name, test in {"true": small.test, "none": small.test[:0], "garbage": garbage}.items():
        graph = dataclasses.replace(small, test=test)
        outcomes = tune(graph, RATES, out=tmp_path / name)
        found[name] = kept(outcomes), states(tmp_path / name, state_of), (tmp_path / name / "best.yaml").read_text()
    assert found["true"] == found["none"] == found["garbage"]


def test_a_stopped_study_ends_as_if_it_had_not_been_stopped(small, tmp_path, state_of):
    whole = tune(small, RATES, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        tune(small, RATES, out=tmp_path / "study", listener=Stop(1))
    folder = StudyFolder(tmp_path / "study")
    assert folder.run(0).results.is_file()
    assert folder.run(1).recipe.is_file()
    assert not folder.run(1).results.is_file()
    first = folder.run(0).model.stat().st_mtime_ns
    with pytest.raises(RunError, match=r"there is a study in .* already: continue it with --resume"):
        tune(small, RATES, out=tmp_path / "study")
    resumed = tune(out=tmp_path / "study", resume=True)
    assert kept(resumed) == kept(whole)
    assert states(tmp_path / "study", state_of) == states(tmp_path / "whole", state_of)
    assert (tmp_path / "study" / "best.yaml").read_text() == (tmp_path / "whole" / "best.yaml").read_text()
    assert kept(tune(small, RATES, out=tmp_path / "study", resume=True)) == kept(whole)
    assert folder.run(0).model.stat().st_mtime_ns == first, "an ended trial was trained again"


@pytest.mark.parametrize("grid", [RATES, {**RATES, "recipe": "own"}], ids=["no data", "the same data"])
def test_a_grid_given_again_without_data_goes_on_with_the_study_s_own(small, tmp_path, state_of, grid):
    if grid["recipe"] == "own":
        grid = {**RATES, "recipe": {**Recipe.resolve("transe").to_mapping(), "data": "small"}}
    whole = tune(small, RATES, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        tune(small, RATES, out=tmp_path / "study", listener=Stop(1))
    before = (tmp_path / "study" / "study.yaml").read_text()
    assert kept(tune(grid=grid, out=tmp_path / "study", resume=True)) == kept(whole)
    assert (tmp_path / "study" / "study.yaml").read_text() == before
    assert states(tmp_path / "study", state_of) == states(tmp_path / "whole", state_of)


def test_each_result_is_read_once(small, tmp_path, monkeypatch):
    read = []
    results = study._read_results
    monkeypatch.setattr(study, "_read_results", lambda run, metric: read.append(run.path) or results(run, metric))
    assert len(tune(small, RATES, out=tmp_path / "study")) == 4
    assert len(read) == len(set(read)) == 4


def test_a_run_without_a_value_is_a_failed_trial_and_never_the_best(small, tmp_path):
    """Not made by a grid of today, but what is there is not to be taken for a result."""
    grid = quick({"training.learning_rate": [0.001, 0.01]})
    tune(small, grid, out=tmp_path / "study")
    for number, path in enumerate(sorted(tmp_path.glob("study/trials/*/results.json"))):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"best_validation": {"mrr": None}}))
        if number == 0:
            best, failed = tune(out=tmp_path / "study", resume=True)
            assert (best.trial, failed.trial) == (1, 0)
            assert failed.error == "it was never compared with the validation set"
    (tmp_path / "study" / "best.yaml").unlink()
    with pytest.raises(RunError, match="all 2 trials failed, one of them with: it was never compared"):
        tune(out=tmp_path / "study", resume=True)
    assert not (tmp_path / "study" / "best.yaml").exists()


def test_another_grid_recipe_or_graph_is_refused(small, planted, tmp_path):
    tune(small, RATES, out=tmp_path / "study")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    more = quick({"training.learning_rate": [0.001, 0.01, 0.1], "training.seed": [0, 1]})
    other = dataclasses.replace(small, valid=small.valid[1:])
    named = {**RATES, "recipe": {**Recipe.resolve("transe").to_mapping(), "data": "countries"}}
    for data, grid, overrides, message in (
        (small, more, None, "begun with other values in its grid"),
        (small, RATES, ["training.batch_size=8"], "begun with another recipe"),
        (None, None, ["validation.metric=mr"], "begun with another recipe"),
        (other, RATES, None, "begun with other data called 'small'"),
        (dataclasses.replace(small, name="big"), RATES, None, "begun with data called 'small', not 'big'"),
        (None, named, None, "begun with data called 'small', not 'countries'"),
    ):
        with pytest.raises(RunError, match=message):
            tune(data, grid, out=tmp_path / "study", overrides=overrides, resume=True)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_trial_that_diverges_is_recorded_and_the_others_go_on(small, tmp_path):
    grid = quick({"training.learning_rate": [1e30, 0.01]}, recipe="distmult")
    best, failed = tune(small, grid, out=tmp_path / "study")
    assert (best.trial, failed.trial, failed.value) == (1, 0, None)
    assert failed.to_json()["error"].startswith("the loss became nan in epoch 1, step")
    assert yaml.safe_load((tmp_path / "study" / "best.yaml").read_text())["training"]["learning_rate"] == 0.01
    assert kept(tune(out=tmp_path / "study", resume=True)) == kept([best, failed])
    with pytest.raises(RunError, match="all 1 trials failed, one of them with: the loss became nan"):
        tune(small, quick({"training.learning_rate": [1e30]}, recipe="distmult"), out=tmp_path / "bad")
    assert not (tmp_path / "bad" / "best.yaml").exists()


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (quick({"loss.name": ["margin", "bce"]}), "loss.name is 'bce' with sampled negatives"),
        (quick({"start.run": ["nowhere"]}), "there is no run in nowhere"),
        (quick({"loss.margin": [1]}, set=QUICK | {"training.device": "tpu"}), "there is no device 'tpu' here"),
        (quick({"model.height": [10, 7]}, recipe="conve", set={"model.dim": 20}), "model"),
    ],
)
def test_what_any_trial_would_refuse_is_refused_before_the_first(small, tmp_path, grid, message):
    with pytest.raises((SettingsError, RunError), match=message):
        tune(small, grid, out=tmp_path / "study")
    assert not list(tmp_path.iterdir())


def test_a_graph_without_validation_triples_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="graph has no validation triples: trials are compared by them"):
        tune(Graph.from_triples([("a", "r", "b")]), RATES, out=tmp_path / "study")
    assert not list(tmp_path.iterdir())


def test_a_folder_with_something_else_is_left_alone(small, tmp_path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(RunError, match="is not empty and not a study"):
        tune(small, RATES, out=tmp_path, resume=True)
    with pytest.raises(SettingsError, match="mine is a file"):
        tune(small, RATES, out=tmp_path / "mine")
