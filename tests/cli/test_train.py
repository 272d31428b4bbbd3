"""capse train: what it prints, Ctrl-C, resuming with a bare command, and recipes by name, file and option."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial

import pytest
import torch
import yaml

from capse.experiments.engine import Listener
from capse.experiments.fit import fit
from capse.experiments.recipe import Recipe
from capse.graph.writing import save_graph
from capse.runs.folder import RunFolder
from capse.training.learner import GradientLearner

QUICK = ["model.dim=4", "training.epochs=2", "validation.every=1", "training.device=cpu", "training.batch_size=64"]


def sets(*options):
    return [part for option in options for part in ("--set", option)]


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def data(planted, tmp_path):
    save_graph(planted, tmp_path / "planted")
    return tmp_path / "planted"


@pytest.fixture
def capse(run_command):
    """Runs ``capse train ...``."""
    return partial(run_command, "train")


def test_the_answer_is_the_folder_and_the_rest_is_progress(capse, data, tmp_path):
    status, output, errors = capse("--data", data, "--model", "transe", "--out", tmp_path / "run", *sets(*QUICK))
    assert (status, output) == (0, f"{tmp_path / 'run'}\n")
    assert "embeddings start at random" in errors
    assert re.search(r"epoch 2: loss \d+\.\d+, validation MRR 0\.\d+, Hits@10 \d+\.\d %", errors)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert (results["model"], results["dataset"], results["epochs"]) == ("transe", "planted", 2)


def test_a_recipe_by_name_by_file_and_by_option(capse, data, tmp_path):
    written = tmp_path / "mine.yaml"
    written.write_text("model: {name: transe, dim: 4}\ntraining: {epochs: 1, device: cpu}\n")
    for out, arguments in {
        "name": ["transe", *sets("model.dim=4", "training.epochs=1", "training.device=cpu")],
        "file": [written],
        "option": sets("model.name=transe", "model.dim=4", "training.epochs=1", "training.device=cpu"),
    }.items():
        assert capse(*arguments, "--data", data, "--out", tmp_path / out)[0] == 0
        recipe = yaml.safe_load((tmp_path / out / "recipe.yaml").read_text())
        assert (recipe["model"]["name"], recipe["model"]["dim"], recipe["training"]["epochs"]) == ("transe", 4, 1)


def test_the_recipe_may_name_the_data(capse, tmp_path):
    recipe = tmp_path / "r.yaml"
    recipe.write_text("data: countries\nmodel: {name: distmult, dim: 4}\ntraining: {epochs: 0, device: cpu}\n")
    assert capse(recipe, "--out", tmp_path / "run")[0] == 0
    assert yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())["data"] == "countries"


def test_a_bare_resume_knows_everything_from_the_run(capse, data, planted, tmp_path):
    class Stop(Listener):
        def step(self, report):
            if (report.epoch, report.step) == (2, 1):
                raise KeyboardInterrupt

    for out in ("whole", "run"):
        listener = Stop() if out == "run" else None
        try:
            fit(planted, Recipe.resolve(model="transe", overrides=QUICK), out=tmp_path / out, listener=listener)
        except KeyboardInterrupt:
            assert out == "run"
    assert capse("--out", tmp_path / "run")[0] == 2  # not without --resume
    status, output, errors = capse("--resume", "--out", tmp_path / "run")
    assert (status, output) == (0, f"{tmp_path / 'run'}\n")
    assert "resuming after epoch 1, step 1" in errors
    assert RunFolder(tmp_path / "run").model.read_bytes() == RunFolder(tmp_path / "whole").model.read_bytes()
    again = capse("--resume", "--out", tmp_path / "run", "--data", data, "--model", "transe", *sets(*QUICK))
    assert again[0] == 0
    refused = capse("--resume", "--out", tmp_path / "run", *sets("training.seed=5"))
    assert refused[0] == 2
    assert "begun with other settings in 'training'" in refused[2]


def test_ctrl_c_says_how_to_go_on_and_going_on_ends_with_the_same_bits(capse, data, tmp_path):
    """A real process and a real signal; the folder's name needs quoting, and is too long for one line of 80."""
    out = tmp_path / ("a folder with a name " + "that is rather long " * 4)
    options = sets(*QUICK, "training.epochs=150", "validation.every=50")
    command = ["--data", str(data), "--model", "transe", *options]
    process = subprocess.Popen(
        [sys.executable, "-m", "capse", "train", *command, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    deadline = time.monotonic() + 120
    while not RunFolder(out).read_metrics():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, "")
    assert f"stopped; continue with: capse train --resume --out '{out}'" in errors.splitlines()
    assert "Traceback" not in errors
    assert 0 < len(RunFolder(out).read_metrics()) < 150
    assert not RunFolder(out).model.exists()

    assert capse("--resume", "--out", out)[0] == 0
    assert capse(*command, "--out", tmp_path / "whole")[0] == 0
    assert RunFolder(out).model.read_bytes() == RunFolder(tmp_path / "whole").model.read_bytes()


def test_ctrl_c_before_the_run_has_begun(capse, data, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("capse.experiments.fit.build_model", interrupted)
    status, output, errors = capse("--data", data, "--model", "transe", "--out", tmp_path / "run")
    assert (status, output, errors) == (130, "", "stopped; nothing was written\n")
    assert not (tmp_path / "run").exists()


DIVERGING = sets(*QUICK, "optimizer.name=sgd", "training.learning_rate=1e30")


def test_a_training_that_diverges_at_once_leaves_the_folder_free(capse, data, tmp_path):
    arguments = ("--data", data, "--model", "distmult", "--out", tmp_path / "run")
    status, output, errors = capse(*arguments, *DIVERGING)
    assert (status, output) == (2, "")
    assert re.search(r"error: the loss became (nan|inf) in epoch 1, step \d+: lower training.learning_rate\n", errors)
    assert not (tmp_path / "run").exists()
    assert capse(*arguments, *sets(*QUICK))[0] == 0


def test_a_model_that_has_diverged_by_its_first_validation_leaves_the_folder_free(capse, data, tmp_path, monkeypatch):
    def overflow(self, epoch, *rest):
        loss = step(self, epoch, *rest)
        with torch.no_grad():
            for weights in self.model.parameters():
                weights.fill_(float("inf"))
        return loss

    step = GradientLearner.step
    arguments = (
        "--data",
        data,
        "--model",
        "distmult",
        "--out",
        tmp_path / "run",
        *sets(*QUICK, "training.batch_size=9999"),
    )
    with monkeypatch.context() as patched:
        patched.setattr(GradientLearner, "step", overflow)
        status, output, errors = capse(*arguments)
    assert (status, output) == (2, "")
    assert "diverged; lower the learning rate" in errors
    assert not (tmp_path / "run").exists()
    assert capse(*arguments)[0] == 0


def test_a_training_that_diverges_later_says_what_helps(capse, data, tmp_path, monkeypatch):
    step = GradientLearner.step

    def diverge(self, epoch, *rest):
        return step(self, epoch, *rest) * (float("nan") if epoch.number == 1 else 1)

    arguments = ("--data", data, "--model", "distmult", *sets(*QUICK), "--out")
    with monkeypatch.context() as patched:
        patched.setattr(GradientLearner, "step", diverge)
        for again in ([], ["--resume"]):
            status, _, errors = capse(*arguments, tmp_path / "run", *again)
            assert status == 2
            assert "lower training.learning_rate, and choose another --out: with --resume it would" in errors
            assert len(RunFolder(tmp_path / "run").read_metrics()) == 1
    assert capse(*arguments, tmp_path / "other", "--set", "training.learning_rate=1e-5")[0] == 0


def test_test_triples_that_are_trained_on_are_pointed_out(capse, planted, tmp_path, run_command):
    inside = replace(planted, test=planted.train[:3], valid=planted.train[5:6])
    save_graph(inside, tmp_path / "inside")
    status, _, errors = capse(
        "--data", tmp_path / "inside", "--model", "transe", "--out", tmp_path / "run", *sets(*QUICK)
    )
    assert status == 0
    assert "warning: 3 of the 3 test triples are training triples too: such ranks say what a model" in errors
    assert "warning: 1 of the 1 valid triples is a training triple too" in errors
    status, output, errors = run_command("evaluate", tmp_path / "run", "--json")
    (warning,) = json.loads(output)["warnings"]
    assert warning.startswith("3 of the 3 test triples are training triples too")
    assert warning in " ".join(errors.split())
    assert json.loads(run_command("evaluate", tmp_path / "run", "--json", "--split", "train")[1])["warnings"] == []


def test_the_log_says_how_validation_is_filtered_and_what_chooses(capse, data, tmp_path, run_command):
    errors = capse("--data", data, "--model", "transe", "--out", tmp_path / "run", *sets(*QUICK))[2]
    assert errors.count("validation ranks are filtered by train and valid, not by test; mrr chooses the epoch\n") == 1
    chosen = " ".join(run_command("evaluate", tmp_path / "run", "--split", "valid")[1].split())
    assert "These ranks are filtered by train, valid and test." in chosen
    assert "that chose the epoch, are filtered by train and valid alone" in chosen
    for arguments in (["--split", "test"], ["--split", "valid", "--raw"]):
        assert "chose the epoch" not in run_command("evaluate", tmp_path / "run", *arguments)[1]
