"""Training a plan: a small one, on the embedded graph."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from capse.errors import CapseError, RunError, SettingsError
from capse.experiments.engine import Listener
from capse.graph.link_prediction.predictor import LinkPredictor
from capse_paper.jobs.training import missing_jobs, seed_folder
from capse_paper.plans.graphs import Experiment

pytestmark = pytest.mark.usefixtures("one_thread")
QUICK = ("model.dim=6", "training.epochs=2", "validation.triples=20", "validation.every=1")
TRANSE = Experiment("transe-tiny", "TransE", "countries", "paper", "demo-transe", QUICK, seeds=(0, 1))
CAPSE = Experiment(
    "capse-tiny",
    "CapsE",
    "countries",
    "paper",
    "demo-capse",
    (*QUICK, "model.filters=3", "model.capsule_dim=2"),
    start="transe-tiny",
    seeds=(0, 1),
)
PLAN = (CAPSE, TRANSE)


def planned(*arguments: Any, **options: Any) -> list[Any]:
    """The jobs of trainings, whose recipes have a start."""
    return list(missing_jobs(*arguments, **options))


def train(out, chosen=(CAPSE,), **options):
    jobs = missing_jobs(PLAN, chosen, out, **options)
    for job in jobs:
        job.run()
    return [(job.experiment.name, job.seed) for job in jobs]


def test_runs_are_trained_from_their_starts_and_evaluated(tmp_path):
    assert train(tmp_path) == [("transe-tiny", 0), ("transe-tiny", 1), ("capse-tiny", 0), ("capse-tiny", 1)]
    folder = tmp_path / "runs" / "capse-tiny" / "seed-1"
    names = {"recipe.yaml", "results.json", "metrics.jsonl", "evaluation.json"}
    assert names <= {path.name for path in folder.iterdir()}
    stored = json.loads((folder / "evaluation.json").read_text())
    assert stored["split"] == "test"
    assert stored["metrics"] == LinkPredictor.load(folder).evaluate("test").metrics
    assert {"relation", "category", "frequency"} == set(stored["breakdowns"])
    recipe = (folder / "recipe.yaml").read_text()
    assert f"run: {seed_folder(tmp_path, 'transe-tiny', 1)}" in recipe
    assert "seed: 1" in recipe


def test_what_is_finished_is_left_alone(tmp_path):
    assert train(tmp_path, [TRANSE], seeds=[5]) == [("transe-tiny", 5)]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert train(tmp_path, [TRANSE], seeds=[5]) == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert train(tmp_path, [TRANSE], seeds=[5, 6]) == [("transe-tiny", 6)]


def test_a_seed_that_is_named_twice_is_trained_once(tmp_path):
    assert [job.seed for job in missing_jobs(PLAN, [TRANSE], tmp_path, seeds=[3, 0, 3])] == [3, 0]


@pytest.mark.parametrize("name", ["a #b", "a: b", "{x", "007", "null", " c "])
def test_a_folder_may_have_any_name(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CAPSE_DATA", name)
    (tmp_path / name).mkdir()
    (tmp_path / name / "words.txt").write_text("x 1 2 3\n")
    words = Experiment("w", "TransE", "countries", "paper", "demo-transe", files=(("start.words", "words.txt"),))
    (job,) = planned([words], [words], name, seeds=[0])
    assert (job.recipe.start.words, job.recipe.training.seed) == (f"{name}/words.txt", 0)
    assert [job.recipe.start.run for job in planned(PLAN, [CAPSE], name, seeds=[0])] == [
        None,
        f"{name}/runs/transe-tiny/seed-0",
    ]


def test_a_run_may_start_from_two(tmp_path):
    product = Experiment("distmult-tiny", "DISTMULT", "countries", "own", "distmult", QUICK)
    both = replace(CAPSE, start="distmult-tiny", beside="transe-tiny", overrides=(*CAPSE.overrides, "model.dim=12"))
    *before, job = planned([both, TRANSE, product], [both], tmp_path, seeds=[0])
    assert [other.experiment for other in before] == [product, TRANSE]
    assert [job.recipe.start.run, job.recipe.start.beside] == [str(other.folder) for other in before]
    before[1].run()
    (before[1].folder / "model.safetensors").unlink()
    with pytest.raises(RunError, match=r"capse-tiny starts from .*transe-tiny.*, which is kept without its weights"):
        missing_jobs([both, TRANSE, product], [both], tmp_path, seeds=[0])


def test_a_run_is_compared_with_what_it_began_as(tmp_path):
    """KBGAN in small: its two starts first, then itself, and a paired test on the same triples."""
    sizes = ("model.dim=6", "training.batch_size=500", "validation.every=1")
    alone, generator = (
        Experiment(f"{name}-tiny", name, "countries", "paper", f"kbgan-{name}-wn18rr", (*sizes, "training.epochs=2"))
        for name in ("transe", "distmult")
    )
    both = Experiment(
        "kbgan-tiny",
        "KBGAN",
        "countries",
        "paper",
        "kbgan-wn18rr",
        (*sizes, "training.epochs=3"),
        start="transe-tiny",
        adversary="distmult-tiny",
        against="transe-tiny",
    )
    jobs = missing_jobs([both, alone, generator], [both], tmp_path, seeds=[4])
    for job in jobs:
        job.run()
    assert [job.experiment for job in jobs] == [alone, generator, both]
    found = json.loads((jobs[-1].folder / "paired.json").read_text())
    assert (found["against"], found["metric"]) == ("transe-tiny/seed-4", "mrr")
    stored = [json.loads((job.folder / "evaluation.json").read_text())["metrics"]["both"] for job in jobs]
    assert found["difference"] == pytest.approx(stored[-1]["realistic"]["mrr"] - stored[0]["realistic"]["mrr"])
    assert found["low"] < found["difference"] < found["high"]
    assert 0 <= found["p_value"] <= 1
    assert not (jobs[0].folder / "paired.json").exists()


HOLD = """
import sys
from capse_paper.jobs import training
from pathlib import Path
with training._at_work(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_seed_that_another_process_trains_is_left_alone(tmp_path):
    first, second = missing_jobs(PLAN, [TRANSE], tmp_path)
    command = [sys.executable, "-c", HOLD, str(first.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(RunError, match=r"another process is at work on .*seed-0: wait until it is done, or choose"):
            first.run()
        assert not first.folder.exists()
        second.run()  # another seed is free
        other.kill()  # the hold ends with the process
    first.run()
    assert (first.folder / "evaluation.json").is_file()
    assert {path.name for path in first.folder.parent.iterdir()} == {"seed-0", "seed-1"}


def test_a_run_that_another_process_finished_meanwhile_is_left_alone(tmp_path):
    (job,), (late,) = (missing_jobs(PLAN, [TRANSE], tmp_path, seeds=[0]) for _ in range(2))
    job.run()
    before = {path: path.stat().st_mtime_ns for path in job.folder.rglob("*")}
    late.run()
    assert {path: path.stat().st_mtime_ns for path in job.folder.rglob("*")} == before


def test_data_that_is_not_there_leaves_nothing_behind(tmp_path):
    absent = Experiment("x", "TransE", str(tmp_path / "absent"), "paper", "demo-transe", seeds=(0,))
    (job,) = missing_jobs([absent], [absent], tmp_path / "out")
    with pytest.raises(CapseError, match="absent"):
        job.run()
    assert not (tmp_path / "out").exists()


def test_a_stopped_run_goes_on_to_the_same_end(tmp_path, state_of):
    class Stop(Listener):
        def epoch(self, record):
            raise KeyboardInterrupt

    (job,) = missing_jobs(PLAN, [TRANSE], tmp_path / "stopped", seeds=[0])
    with pytest.raises(KeyboardInterrupt):
        job.run(Stop())
    assert not (job.folder / "evaluation.json").exists()
    for out in ("stopped", "whole"):
        assert train(tmp_path / out, [TRANSE], seeds=[0]) == [("transe-tiny", 0)]
    assert state_of(job.folder) == state_of(seed_folder(tmp_path / "whole", "transe-tiny", 0))


def test_a_start_that_is_kept_without_weights_is_not_trained_again(tmp_path):
    train(tmp_path, [TRANSE], seeds=[0])
    (seed_folder(tmp_path, "transe-tiny", 0) / "model.safetensors").unlink()
    with pytest.raises(RunError, match=r"kept without its weights: train both anew with another --out"):
        missing_jobs(PLAN, [CAPSE], tmp_path, seeds=[0])


def test_a_file_that_is_not_in_the_data_is_missed_before_anything_is_trained(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPSE_DATA", str(tmp_path))
    words = Experiment("x", "TransE", "countries", "paper", "demo-transe", files=(("start.words", "glove/words.txt"),))
    with pytest.raises(SettingsError, match=r"x needs glove/words\.txt, which is not in CAPSE_DATA: set CAPSE_DATA"):
        missing_jobs([words], [words], tmp_path)
    (tmp_path / "glove").mkdir()
    (tmp_path / "glove" / "words.txt").write_text("x 1 2 3\n")
    (job, *_) = planned([words], [words], tmp_path)
    assert job.recipe.start.words == str(tmp_path / "glove" / "words.txt")
