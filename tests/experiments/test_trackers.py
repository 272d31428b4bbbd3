"""What trackers are told: by stand-ins always, by the real packages where they are installed."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

import capse
from capse.errors import MissingExtraError, UnknownNameError
from capse.experiments.listening import Listeners
from capse.experiments.trackers import MLflow, WeightsAndBiases, flat, flat_numbers, trackers


def fit(graph, out, listener):
    """Two epochs, each validated."""
    training, validation = capse.Training(epochs=2, batch_size=16), capse.Validation(every=1)
    capse.fit(graph, capse.DistMult(dim=4), training=training, validation=validation, out=out, listener=listener)


class Told(capse.Listener):
    def __init__(self):
        self.calls: list[tuple[str, Any]] = []

    def begin(self, folder, settings):
        self.calls.append(("begin", (folder.name, settings["model"]["name"])))

    def epoch(self, record):
        self.calls.append(("epoch", record["epoch"]))

    def end(self, results):
        self.calls.append(("end", results and results["epochs"]))


def test_several_are_told_of_the_beginning_every_epoch_and_the_end(small, tmp_path):
    first, second = Told(), Told()
    fit(small, tmp_path / "run", Listeners([first, second]))
    assert first.calls == [("begin", ("run", "distmult")), ("epoch", 1), ("epoch", 2), ("end", 2)]
    assert second.calls == first.calls


def test_a_training_that_was_stopped_ends_without_results(small, tmp_path):
    class Stops(Told):
        def epoch(self, record):
            raise KeyboardInterrupt

    told = Stops()
    with pytest.raises(KeyboardInterrupt):
        fit(small, tmp_path / "run", told)
    assert told.calls == [("begin", ("run", "distmult")), ("end", None)]


def test_flat_names():
    record = {"epoch": 3, "validation": {"realistic": {"hits@10": 0.5}}, "note": "x", "best": True}
    assert dict(flat(record))["validation.realistic.hits@10"] == 0.5
    assert dict(flat_numbers(record)) == {"epoch": 3, "validation.realistic.hits@10": 0.5}


class Stand:
    """A module that writes down what is called."""

    def __init__(self):
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name):
        def call(*arguments, **options):
            self.calls.append((name, arguments, options))
            return self

        return call


def test_mlflow_gets_parameters_metrics_and_an_end(small, tmp_path, monkeypatch):
    module = Stand()
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    fit(small, tmp_path / "run", MLflow())
    names = [name for name, _, _ in module.calls]
    assert names == ["set_tracking_uri", "set_experiment", "start_run", "log_params", *["log_metrics"] * 2, "end_run"]
    assert module.calls[0][1] == (f"sqlite:///{tmp_path / 'run' / 'tracking' / 'mlflow.db'}",)
    assert module.calls[3][1][0]["model.dim"] == "4"
    metrics, step = module.calls[4][1][0], module.calls[4][2]["step"]
    assert step == 1
    assert {"loss", "validation.realistic.hits_at_10"} <= set(metrics)
    assert module.calls[-1][1] == ("FINISHED",)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://there")
    fit(small, tmp_path / "other", MLflow())
    assert "set_tracking_uri" not in [name for name, _, _ in module.calls[7:]]


def test_weights_and_biases_stay_offline_unless_told(small, tmp_path, monkeypatch):
    module = Stand()
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    fit(small, tmp_path / "run", WeightsAndBiases())
    (name, _, options), *_, last = module.calls
    assert (name, options["mode"], options["dir"]) == ("init", "offline", str(tmp_path / "run" / "tracking"))
    assert options["config"]["model"]["name"] == "distmult"
    assert [name for name, _, _ in module.calls] == ["init", "log", "log", "finish"]
    assert last[2] == {"exit_code": 0}


@pytest.mark.parametrize(("name", "package"), [("mlflow", "mlflow"), ("wandb", "wandb")])
def test_without_the_package_the_extra_is_named(name, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'capse\[trackers\]'"):
        trackers([name])


def test_the_command_line(tmp_path, run_command, monkeypatch):
    with pytest.raises(UnknownNameError, match="unknown tracker 'mlfow': did you mean 'mlflow'"):
        trackers(["mlfow"])
    module = Stand()
    monkeypatch.setitem(sys.modules, "mlflow", module)
    arguments = (
        "train",
        "--model",
        "distmult",
        "--data",
        "countries",
        "--set",
        "training.epochs=1",
        "--set",
        "model.dim=4",
    )
    status, _, _ = run_command(*arguments, "--track", "mlflow", "--out", tmp_path / "run")
    assert (status, module.calls[-1][0]) == (0, "end_run")
    assert isinstance(capse.load(tmp_path / "run"), capse.LinkPredictor)  # what trackers keep is no part of the run
    status, _, errors = run_command(*arguments, "--track", "nobody", "--out", tmp_path / "other")
    assert (status, "unknown tracker 'nobody'" in errors, (tmp_path / "other").exists()) == (2, True, False)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_the_real_packages_keep_it_in_the_run(name, small, tmp_path, monkeypatch):
    pytest.importorskip(name)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    fit(small, tmp_path / "run", trackers([name])[0])
    kept = [path for path in (tmp_path / "run" / "tracking").rglob("*") if path.is_file()]
    assert kept
    assert json.loads((tmp_path / "run" / "results.json").read_text())["epochs"] == 2
    assert isinstance(capse.load(tmp_path / "run"), capse.LinkPredictor)
