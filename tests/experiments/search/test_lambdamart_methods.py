"""Runs of SP and of the blend: written whole, evaluated by the command, the same as when they were fitted."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from capse.cli import main
from capse.errors import RunError, SettingsError
from capse.experiments.search.choice import Choice
from capse.experiments.search.lambdamart_methods import BlendMethod
from capse.experiments.search.methods import METHODS, load_search_run
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.search.ingest import open_log
from capse.search.logs.history import cutoffs
from capse.search.logs.simulation import SimulationSettings, simulate
from capse.search.rankers.baselines import SE
from capse.search.rankers.sp_lambdamart import SP

SMALL = ["vectors.dimensions=8", "model.filters=4", "training.epochs=2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("log") / "made"
    simulate(SimulationSettings(users=10, documents=100, impressions=300)).write_jsonl(folder)
    return folder


@pytest.fixture(scope="module")
def log(folder):
    return open_log(folder)


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    """A run of the blend, made by the command."""
    out = tmp_path_factory.mktemp("runs") / "blend"
    changes = [word for change in SMALL for word in ("--set", change)]
    call("search", "train", "--method", "blend", "--log", folder, "--out", out, *changes)
    return out


def call(*arguments):
    with pytest.raises(SystemExit) as exit:
        main([str(argument) for argument in arguments])
    assert exit.value.code in (None, 0)


def test_a_run_is_numbers_and_text(run):
    found = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    assert {"recipe.yaml", "ranker.json", "lambdamart.txt", "without_user.txt", "results.json"} < found
    assert {"vectors/topics.safetensors", "rankers/capse/model.safetensors", "rankers/capse/recipe.yaml"} < found
    assert {name.rsplit(".", 1)[1] for name in found} == {"yaml", "json", "txt", "parquet", "safetensors"}


def test_the_command_evaluates_a_run_as_it_was_fitted(run, folder, log, capsys):
    call("search", "evaluate", "--log", folder, "--method", "blend", "--run", run, "--json")
    printed = json.loads(capsys.readouterr().out)
    assert printed["method"] == "blend"
    fitted = METHODS["blend"].fit(log, METHODS["blend"].resolve(overrides=SMALL), seed=0)
    loaded = load_search_run(run)
    lists = log.judged("test")
    np.testing.assert_allclose(
        loaded.score(log, lists, cutoffs(log)), fitted.score(log, lists, cutoffs(log)), rtol=1e-6, atol=1e-6
    )
    assert printed["impressions"] == len(lists)


def test_the_leak_control_trains_it_anew_with_the_same_settings(run):
    again = Choice("blend", run=run).to_train()
    assert again.run is None
    assert again.resolved.vectors.dimensions == 8


def test_what_cannot_be_used_is_named(run, tmp_path):
    with pytest.raises(SettingsError, match="trained with blend, not sp"):
        Choice("sp", run=run)
    with pytest.raises(RunError, match="is a run of a search log: use it with"):
        LinkPredictor.load(run)
    with pytest.raises(RunError, match="not a run of a search log"):
        load_search_run(tmp_path)
    (tmp_path / "recipe.yaml").write_text("method: sp")
    with pytest.raises(RunError, match="not a saved ranker"):
        load_search_run(tmp_path)
    with pytest.raises(SettingsError, match="runs are of"):
        Choice("ci", run=run)


def test_nothing_is_overwritten_or_half_written(run, tmp_path, monkeypatch):
    ranker: Any = load_search_run(run)
    blend = BlendMethod("blend")
    with pytest.raises(SettingsError, match="not an empty folder"):
        blend.train(None, out=run)
    other = SP(ranker.model, ranker.anonymous, ranker.groups, ranker.space, {"se": SE()}, "blend")
    monkeypatch.setattr(blend, "fit", lambda *_, **__: other)
    with pytest.raises(SettingsError, match="has no run"):
        blend.train(None, out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_trees_are_not_resumed(folder, tmp_path, capsys):
    with pytest.raises(SystemExit) as exit:
        main(["search", "train", "--method", "sp", "--resume", "--log", str(folder), "--out", str(tmp_path / "x")])
    assert exit.value.code == 2
    assert "train it anew" in capsys.readouterr().err
