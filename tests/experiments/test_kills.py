"""kill -9 at random moments, and exactly while something is written: the run goes on with the same bits.

A driver imports everything once and forks a process for each training, so that a kill costs a fraction of a second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

DRIVER = '''
import json, os, random, shutil, signal, sys, time, traceback
from pathlib import Path

import capse.cli.train, capse.cli.display
from capse.cli import main
from capse.runs import atomic

folder, job, limit, *options = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), *sys.argv[4:]


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


def train(name, *extra):
    main(["train", "--data", "countries", "--out", str(folder / name), *options, *extra])


def state(name):
    clock = ("seconds", "examples_per_second")
    lines = map(json.loads, (folder / name / "metrics.jsonl").read_text().splitlines())
    records = [{k: v for k, v in line.items() if k not in clock} for line in lines]
    return (folder / name / "model.safetensors").read_bytes(), records


def killed_at_write(n):
    """A training that kills itself just before its n-th flush to disk or rename."""
    def work():
        calls = []
        for function in ("fsync", "replace"):
            def count(*arguments, real=getattr(os, function)):
                calls.append(arguments)
                if len(calls) == n:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*arguments)
            setattr(atomic.os, function, count)
        train("run")
    return work


def whole():
    try:
        train("whole")
    except SystemExit as stop:
        assert not stop.code


whole()  # here, not in a process of its own: the others find everything loaded and compiled
shutil.rmtree(folder / "whole")
started = time.monotonic()
assert fork(lambda: train("whole")) == 0
duration = time.monotonic() - started
expected, kills, leftovers = state("whole"), 0, 0
if job == "writes":
    for n in range(1, limit):
        status = fork(killed_at_write(n))
        if status == 0:
            break
        assert status == -9, status
        kills += 1
        assert fork(lambda: train("run", "--resume")) == 0, n
        assert state("run") == expected, n
        leftovers += len(list((folder / "run").rglob("*.part")))
        shutil.rmtree(folder / "run")
    else:
        sys.exit("the limit is too low")
else:
    moments = random.Random(int(time.time()) if job == "anytime" else 1)
    while kills < limit:
        status = fork(lambda: train("run", "--resume"), moments.uniform(0, duration))
        if status == 0:
            assert state("run") == expected
            shutil.rmtree(folder / "run")
        else:
            assert status == -9, status
            kills += 1
    assert fork(lambda: train("run", "--resume")) == 0
    assert state("run") == expected
    leftovers += len(list((folder / "run").rglob("*.part")))
(folder / "found.json").write_text(json.dumps({"kills": kills, "leftovers": leftovers}))
'''

QUICK = ["--model", "distmult", "--set", "model.dim=4", "--set", "training.device=cpu"]


def drive(tmp_path, job, limit, **settings):
    options = [part for key, value in settings.items() for part in ("--set", f"{key.replace('__', '.')}={value}")]
    result = subprocess.run(
        [sys.executable, "-c", DRIVER, str(tmp_path), job, str(limit), *QUICK, *options],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "NUMBA_THREADING_LAYER": "workqueue"},
    )
    log = (tmp_path / "log").read_text() if (tmp_path / "log").exists() else ""
    assert result.returncode == 0, result.stderr + log
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["leftovers"] == 0
    return found["kills"]


def test_killed_exactly_while_it_writes(tmp_path):
    """Before every flush and every rename of a run: while the folder is made, checkpoints, best weights, the model."""
    kills = drive(
        tmp_path, "writes", 100, training__epochs=1, training__batch_size=2500, training__checkpoint_seconds=0,
        validation__triples=5,
    )  # fmt: skip
    assert kills > 25


def test_killed_at_random_moments(tmp_path):
    settings = {"training__epochs": 6, "training__checkpoint_seconds": 0, "validation__every": 2}
    assert drive(tmp_path, "random", 3, validation__triples=20, **settings) == 3


@pytest.mark.slow
def test_killed_25_times_at_any_moment(tmp_path):
    settings = {"training__epochs": 25, "training__checkpoint_seconds": 0.05, "validation__every": 2}
    assert drive(tmp_path, "anytime", 25, validation__triples=20, training__batch_size=256, **settings) == 25
