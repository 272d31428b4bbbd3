"""Studies that are stopped: kill -9, Ctrl-C, errors, and processes that do not stop or die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from capse.experiments import workers
from capse.experiments.study import StudyFolder
from capse.experiments.tune import StudyListener, tune
from tests.cli.tune.processes import GRID, children, nobody_is_at_work, scores, start, wait_for, weights

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_killed_study_goes_on_and_ends_with_the_same_bits(capse, work):
    """kill -9 in the middle of two trials, with others ended and not begun; its processes end with it."""
    process = start("long.yaml", "--data", "planted", "--out", "study", "--jobs", "2")
    study = StudyFolder("study")
    wait_for(lambda: any(study.run(n).results.is_file() for n in (0, 1)), process)
    wait_for(lambda: study.run(2).read_metrics() or study.run(3).read_metrics(), process)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 10
    while not nobody_is_at_work(study):
        assert time.monotonic() < deadline, "a process outlives the study"
        time.sleep(0.05)
    ended = [n for n in range(4) if study.run(n).results.is_file()]
    assert 0 < len(ended) < 4
    stamps = {n: study.run(n).results.stat().st_mtime_ns for n in ended}

    assert capse("long.yaml", "--data", "planted", "--out", "study")[0] == 2  # not without --resume
    status, output, errors = capse("--resume", "--out", "study", "--json")
    assert status == 0
    assert f"4 trials, {len(ended)} of them trained before" in errors
    assert {n: study.run(n).results.stat().st_mtime_ns for n in ended} == stamps
    status, whole, _ = capse("long.yaml", "--data", "planted", "--out", "whole", "--json")
    assert status == 0
    assert scores(output) == scores(whole)
    assert weights("study") == weights("whole")
    assert len(weights("study")) == 4
    assert Path("study/best.yaml").read_text() == Path("whole/best.yaml").read_text()


def test_ctrl_c_stops_all_processes_with_a_checkpoint_and_says_how_to_go_on(capse, work):
    (work / "long.yaml").write_text((GRID % 2000).replace("0.2", "1000"))
    process = start("long.yaml", "--data", "planted", "--out", "my study", "--jobs", "2")
    study = StudyFolder("my study")
    wait_for(lambda: study.run(0).read_metrics() and study.run(1).read_metrics(), process)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, "")
    assert errors.splitlines()[-1] == "stopped; continue with: capse tune --resume --out 'my study' --jobs 2"
    assert "Traceback" not in errors
    assert nobody_is_at_work(study)
    for number in (0, 1):  # stopped, not killed: no checkpoint was due for another 1,000 seconds
        assert (study.run(number).checkpoints / "last.safetensors").is_file()
        assert not study.run(number).results.exists()


def test_an_error_ends_all_processes_even_where_ctrl_c_is_ignored(work):
    """As in the background of a shell; the processes inherit that, and are stopped by SIGINT all the same."""
    (work / "long.yaml").write_text((GRID % 2000).replace("0.2", "1000"))
    program = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
from capse.experiments.tune import StudyListener, tune
class Fails(StudyListener):
    def progress(self, done, total):
        raise RuntimeError("any error")
tune("planted", "long.yaml", out="study", jobs=2, listener=Fails())
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "RuntimeError: any error"
    study = StudyFolder("study")
    assert nobody_is_at_work(study)
    assert any((study.run(n).checkpoints / "last.safetensors").is_file() for n in (0, 1)), "killed, not stopped"
    assert not any(study.run(n).results.exists() for n in (0, 1))


def test_a_process_that_does_not_stop_is_killed(work, monkeypatch):
    monkeypatch.setattr(workers, "_GRACE_SECONDS", 0.5)
    (work / "long.yaml").write_text(GRID % 2000)
    stopped = []

    class Stuck(StudyListener):
        def progress(self, done, total):
            own = Path(f"/proc/{os.getpid()}/task").glob("*/children")
            for pid in {int(pid) for path in own for pid in path.read_text().split()}:
                if b"capse.experiments.workers" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGSTOP)
                    stopped.append(pid)
            raise RuntimeError("any error")

    with pytest.raises(RuntimeError, match="any error"):
        tune("planted", "long.yaml", out="study", jobs=2, listener=Stuck())
    assert len(stopped) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in stopped)


@pytest.mark.slow
def test_a_process_that_dies_is_a_failed_trial_and_the_others_go_on(work):
    process = start("long.yaml", "--data", "planted", "--out", "study", "--jobs", "2", "--json")
    study = StudyFolder("study")
    wait_for(lambda: study.run(0).read_metrics() and study.run(1).read_metrics(), process)
    os.kill(children(process)[0], signal.SIGKILL)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    *ended, failed = json.loads(output)
    assert len(ended) == 3
    assert failed["error"] == "its process ended with signal 9"
    assert f"trial {failed['trial']} failed: its process ended with signal 9" in errors


@pytest.mark.slow
def test_a_failing_trial_among_several_processes(capse, work):
    (work / "bad.yaml").write_text((GRID % 2).replace("transe", "distmult").replace("1e-3", "1e30"))
    status, output, errors = capse("bad.yaml", "--data", "planted", "--out", "study", "--jobs", "2", "--json")
    assert status == 0
    rows = json.loads(output)
    assert sorted(row["trial"] for row in rows if row["value"] is None) == [0, 1]
    assert errors.count("failed: the loss became nan") == 4  # when it happened, and at the end
