"""Grids that are quickly gone through, and `capse tune` in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

GRID = """
recipe: transe
set: {model.dim: 4, training.epochs: %d, training.batch_size: 64, training.device: cpu,
      training.checkpoint_seconds: 0.2, validation.every: 40}
grid:
  training.learning_rate: [1e-3, 1e-2]
  training.seed: [0, 1]
"""
DRAWN = ["--sampler", "random", "--trials", "6"]


def start(*arguments):
    """``capse tune ...`` in a process."""
    return subprocess.Popen(
        [sys.executable, "-m", "capse", "tune", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
    )


def wait_for(condition, process, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def children(process):
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def nobody_is_at_work(study, trials=4):
    """Whether every trial can be held, so that no process is left that trains one."""

    def free(number):
        with study.at_work(number) as held:
            return held

    return all(free(number) for number in range(trials))


def weights(study):
    return [path.read_bytes() for path in sorted(Path(study).glob("trials/*/model.safetensors"))]


def scores(output):
    return [(row["trial"], row["value"], row["best_epoch"]) for row in json.loads(output)]
