"""kill -9 at random moments, and exactly while something is written: the run goes on with the same bits.

A driver imports everything once and forks a process for each training, so that a kill costs a fraction of a second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import capse

DRIVER = '''
import json, os, random, shutil, signal, sys, time, traceback
from pathlib import Path

import capse.cli.refine, capse.cli.train, capse.cli.display
from capse.cli import main
from capse.runs import atomic

folder = Path(sys.argv[1])


def fork(work, seconds=None):
    """Run work() in a process of its own, kill it after so many seconds; returns its exit status, or -9."""
    child = os.fork()
    if child == 0:
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1), os.dup2(log, 2)
        try:
            work()
        except SystemExit as stop:
            os._exit(stop.code or 0)
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def state(name):
    clock = ("seconds", "examples_per_second")
    lines = map(json.loads, (folder / name / "metrics.jsonl").read_text().splitlines())
    records = [{k: v for k, v in line.items() if k not in clock} for line in lines]
    return (folder / name / "model.safetensors").read_bytes(), records


def killed_at_write(n, work):
    """Work that kills itself just before its n-th flush to disk or rename."""
    def counted():
        calls = []
        for function in ("fsync", "replace"):
            def count(*arguments, real=getattr(os, function)):
                calls.append(arguments)
                if len(calls) == n:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*arguments)
            setattr(atomic.os, function, count)
        work()
    return counted


def check(run, expected):
    """Resume, compare, and look for what a kill may have left."""
    assert fork(lambda: run("run", "--resume")) == 0
    assert state("run") == expected
    assert not list((folder / "run").rglob("*.part"))
    shutil.rmtree(folder / "run")


def at_every_write(run, expected, duration, limit):
    for n in range(1, limit):
        status = fork(killed_at_write(n, lambda: run("run")))
        if status == 0:
            shutil.rmtree(folder / "run")
            return n - 1
        assert status == -9, status
        check(run, expected)
    sys.exit("the limit is too low")


def at_random_moments(run, expected, duration, limit):
    seed = time.time_ns()
    print(f"seed {seed}", file=sys.stderr)
    moments = random.Random(seed)
    kills = 0
    while kills < limit:
        status = fork(lambda: run("run", "--resume"), moments.uniform(0, duration))
        if status == 0:  # it was faster
            assert state("run") == expected
            shutil.rmtree(folder / "run")
            continue
        assert status == -9, status
        kills += 1
    check(run, expected)
    return kills


kills = []
for number, (job, limit, command, options) in enumerate(json.loads(sys.argv[2])):
    def run(name, *extra):
        settings = [part for option in options for part in ("--set", option)]
        main([*command, "--out", str(folder / name), *settings, *extra])

    try:
        run(f"warm-{number}")  # here, not in a process of its own: the others find everything loaded and compiled
    except SystemExit as stop:
        assert not stop.code
    started = time.monotonic()
    assert fork(lambda: run("whole")) == 0
    kills.append(globals()[job](run, state("whole"), time.monotonic() - started, limit))
    shutil.rmtree(folder / "whole")
(folder / "kills.json").write_text(json.dumps(kills))
'''

TRAIN = ["train", "--data", "countries", "--model", "distmult"]
OFTEN = ["training.checkpoint_seconds=0", "validation.triples=10"]
COMMON = ["model.dim=4", "training.device=cpu", *OFTEN]


def drive(folder, *jobs):
    """Do the jobs (which, how many kills, settings of a training) and return how many kills each of them took."""
    return drive_commands(folder, *((job, limit, TRAIN, [*COMMON, *options]) for job, limit, options in jobs))


def drive_commands(folder, *given):
    """The same for any command that takes --out, --set and --resume."""
    one_thread = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "NUMBA_THREADING_LAYER": "workqueue"}
    result = subprocess.run(
        [sys.executable, "-c", DRIVER, str(folder), json.dumps(given)],
        capture_output=True,
        text=True,
        env={**os.environ, **one_thread},
    )
    log = (folder / "log").read_text() if (folder / "log").exists() else ""
    assert result.returncode == 0, result.stderr + log
    return json.loads((folder / "kills.json").read_text())


def test_killed_exactly_while_it_writes_and_at_random_moments(tmp_path):
    """Before every flush and rename of a run: its folder, checkpoints, best weights, metrics, model and results."""
    found = drive(
        tmp_path,
        ("at_every_write", 100, ["training.epochs=1", "training.batch_size=2500", "validation.every=1"]),
        ("at_random_moments", 3, ["training.epochs=6", "validation.every=2"]),
    )
    assert found[0] > 25
    assert found[1] == 3


@pytest.mark.slow
def test_killed_25_times_at_any_moment(tmp_path):
    options = ["training.epochs=25", "training.checkpoint_seconds=0.05", "validation.every=2"]
    assert drive(tmp_path, ("at_random_moments", 25, options)) == [25]


@pytest.mark.slow
def test_two_models_against_each_other_killed_at_any_moment(tmp_path):
    """Both models, both optimisers and the baseline go on."""
    against = ["adversary.model=complex", "adversary.dim=3", "adversary.candidates=4", "negatives.sampler=uniform"]
    options = ["loss.name=softmax", "model.reciprocal=false", "training.epochs=5", "validation.every=2"]
    assert drive(tmp_path, ("at_random_moments", 3, [*against, *options])) == [3]


@pytest.mark.slow
def test_a_refinement_killed_exactly_while_it_writes_and_at_random_moments(tmp_path):
    """It goes on from the run that it was begun over, with the same draws."""
    training = capse.Training(epochs=1, device="cpu")
    capse.fit("countries", capse.DistMult(dim=4), training=training, out=tmp_path / "base")
    command = ["refine", str(tmp_path / "base")]
    few = [*OFTEN, "refinement.relations=2", "validation.every=1"]
    found = drive_commands(
        tmp_path,
        ("at_every_write", 100, command, [*few, "training.epochs=1", "training.batch_size=1000"]),
        ("at_random_moments", 3, command, [*few, "training.epochs=3", "training.batch_size=100"]),
    )
    assert found[0] > 15
    assert found[1] == 3
