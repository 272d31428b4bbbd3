"""A process that is gone or does not answer ends the job with one line that names it; any number of them goes on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.experiments.in_processes import training_of
from tests.together import ROOT, ends_of, start_together

LONG = {"training.epochs": 10_000, "training.wait_seconds": 5, "validation.every": 0, "training.checkpoint_seconds": 1}
IN_TIME = 60.0


def begin(out: Path) -> list[subprocess.Popen[str]]:
    """Two processes that train for long, once they have saved something."""
    return once_they_save(out, start_together(2, "-m", "capse", *training_of("complex", out, **LONG)))


def once_they_save(out: Path, processes: list[subprocess.Popen[str]]) -> list[subprocess.Popen[str]]:
    until, before = time.monotonic() + IN_TIME, saved(out)
    while saved(out) == before:
        assert time.monotonic() < until, ends_of(processes, 1)
        time.sleep(0.1)
    return processes


def saved(out: Path) -> list[int]:
    """When the last checkpoint was written, if there is one."""
    return [file.stat().st_mtime_ns for file in out.glob("checkpoints/last.safetensors")]


@pytest.mark.slow
def test_a_killed_process_is_named_and_what_was_saved_is_whole(tmp_path: Path) -> None:
    processes = begin(tmp_path / "run")
    processes[1].send_signal(signal.SIGKILL)
    (status, _, said), (killed, *_) = ends_of(processes, IN_TIME)
    assert (status, killed) == (2, -signal.SIGKILL)
    lines = [line for line in said.splitlines() if line.startswith("error: ")]
    assert lines == ["error: process 0 of 2 lost process 1: what was saved is whole: go on with --resume"]
    out = tmp_path / "run"
    resumed = once_they_save(out, start_together(2, "-m", "capse", "train", "--resume", "--out", out))
    for process in resumed:
        process.send_signal(signal.SIGINT)
    assert [status for status, *_ in ends_of(resumed, IN_TIME)] == [130, 130]


@pytest.mark.slow
def test_one_that_does_not_answer_is_waited_for_so_long(tmp_path: Path) -> None:
    processes = begin(tmp_path / "run")
    processes[1].send_signal(signal.SIGSTOP)
    started = time.monotonic()
    said = processes[0].communicate(timeout=IN_TIME)[1]
    assert time.monotonic() - started < 30
    processes[1].kill()
    processes[1].communicate()
    assert processes[0].returncode == 2
    assert re.search(r"error: process 0 of 2 waited \d+ s in vain for process 1: .*training.wait_seconds", said), said


@pytest.mark.slow
def test_a_node_that_never_comes_is_an_error_within_the_limit(tmp_path: Path) -> None:
    arguments = training_of("complex", tmp_path / "run", **{**LONG, "training.wait_seconds": 3})
    environment = {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    started = time.monotonic()
    found = subprocess.run(
        [sys.executable, "-m", "capse", *arguments],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=IN_TIME,
    )
    assert found.returncode == 2, found.stderr
    assert "process 0 of 2 cannot reach the others at 127.0.0.1:0 within 3 s" in found.stderr
    assert time.monotonic() - started < IN_TIME
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_torchrun_ends_with_the_line_that_says_which(tmp_path: Path) -> None:
    arguments = training_of("complex", tmp_path / "run", **LONG)
    job = subprocess.Popen(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
            *("-m", "capse", *arguments),
        ],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    until = time.monotonic() + IN_TIME
    while not (tmp_path / "run" / "checkpoints" / "last.safetensors").exists():
        assert time.monotonic() < until
        assert job.poll() is None
        time.sleep(0.1)
    children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
    ranks = {int(_environment(child)["RANK"]): int(child) for child in children if "RANK" in _environment(child)}
    os.kill(ranks[1], signal.SIGKILL)
    said = job.communicate(timeout=IN_TIME)[1]
    assert job.returncode != 0
    assert "error: process 0 of 2 lost process 1: what was saved is whole: go on with --resume" in said


def _environment(process: str) -> dict[str, str]:
    pairs = Path(f"/proc/{process}/environ").read_bytes().decode().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


@pytest.mark.slow
def test_killed_at_random_moments_and_resumed_by_other_numbers(tmp_path: Path) -> None:
    """Twenty kills of any of two or four processes: no more than a checkpoint interval is lost, here one step."""
    one_thread = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    result = subprocess.run(
        [sys.executable, "-m", "tests.experiments.killed_groups", str(tmp_path), "20"],
        env={**os.environ, **one_thread},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert result.returncode == 0, result.stderr + result.stdout
    found = json.loads(result.stdout.splitlines()[-1])
    assert found["resumed"] == {"1": True, "2": True, "8": True}
    assert found["kills"] == 20
    assert max(found["lost"]) <= 1
    assert any(found["reached"]), "some are killed while they train"
    # A killed process 0 takes along what the others would ask who is gone; torchrun keeps that itself.
    named = [(victim, line) for victim, line in found["lines"] if victim and line.startswith("error: process 0")]
    assert named
    for victim, line in named:
        assert re.search(rf"lost process [\d, ]*\b{victim}\b", line) or "cannot reach the others" in line
