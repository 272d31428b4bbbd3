"""capse tune: what it prints, several processes, Ctrl-C and kill -9 of all of them, and studies that are shared."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import yaml

from capse.experiments import workers
from capse.experiments.fit import fit
from capse.experiments.recipe import Recipe
from capse.experiments.study import StudyFolder
from capse.experiments.tune import StudyListener, tune
from capse.graph.writing import save_graph
from capse.runs.folder import RunFolder

GRID = """
recipe: transe
set: {model.dim: 4, training.epochs: %d, training.batch_size: 64, training.device: cpu,
      training.checkpoint_seconds: 0.2, validation.every: 40}
grid:
  training.learning_rate: [1e-3, 1e-2]
  training.seed: [0, 1]
"""
DRAWN = ["--sampler", "random", "--trials", "6"]

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def work(planted, tmp_path, monkeypatch):
    """A folder with data and two grids, one of them long enough to be stopped, as the current folder."""
    save_graph(planted, tmp_path / "planted")
    (tmp_path / "quick.yaml").write_text(GRID % 2)
    (tmp_path / "long.yaml").write_text(GRID % 80)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def capse(run_command):
    """Runs ``capse tune ...``."""
    return partial(run_command, "tune")


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


def test_the_answer_is_a_table_and_the_rest_is_progress(capse, work):
    status, output, errors = capse("quick.yaml", "--data", "planted", "--out", "study")
    assert status == 0
    rows = [re.findall(r"[\d.]+", line) for line in output.splitlines() if line.startswith("│")]
    values = [float(row[3]) for row in rows]
    assert len(values) == 4
    assert values == sorted(values, reverse=True)
    recipe, run, page = output.splitlines()[-3:]
    assert recipe == "the best recipe: study/best.yaml"
    assert re.fullmatch(r"the best run: study/trials/\S+", run)
    assert page == "table and curves: study/study.html"
    assert errors.splitlines()[0] == "4 trials"
    assert re.search(r"^trial 3: training.learning_rate=0.01, training.seed=1: mrr 0\.\d{4}", errors, re.MULTILINE)


def test_json_and_the_best_recipe_that_train_takes(capse, run_command, work):
    status, output, _ = capse("quick.yaml", "--data", "planted", "--out", "study", "--json")
    first, *rest = json.loads(output)
    assert status == 0
    assert list(first) == ["trial", "settings", "metric", "value", "epochs", "best_epoch", "seconds", "run"]
    assert first["run"] == f"study/trials/00{first['trial']}"
    assert first["value"] == max(row["value"] for row in (first, *rest))
    assert run_command("train", "study/best.yaml", "--out", "again")[0] == 0  # it names its data
    assert RunFolder("again").model.read_bytes() == RunFolder(first["run"]).model.read_bytes()


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


def test_a_grid_and_no_data_go_on_with_the_study_s_own(capse, work):
    """The recipe that the grid names has no data: the study's name for it stays, and so does study.yaml."""
    _, whole, _ = capse("quick.yaml", "--data", "planted", "--out", "study", "--json")
    study = StudyFolder("study")
    before = study.file.read_bytes()
    study.run(0).results.unlink()  # as if killed just before its end
    shutil.move("planted", "elsewhere")  # the study has a copy
    status, output, errors = capse("quick.yaml", "--resume", "--out", "study", "--json")
    assert (status, scores(output)) == (0, scores(whole))
    assert "4 trials, 3 of them trained before" in errors
    assert "failed" not in errors
    assert study.file.read_bytes() == before


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


def test_a_damaged_result_is_one_line(capse, work):
    capse("quick.yaml", "--data", "planted", "--out", "study")
    results = StudyFolder("study").run(0).results
    whole = results.read_text()
    for content in (whole[:40], "{}", "3", '{"best_validation": null}'):
        results.write_text(content)
        status, output, errors = capse("--resume", "--out", "study")
        assert (status, output) == (2, "")
        assert errors.splitlines()[-1].startswith("error: study/trials/000/results.json is damaged: delete it")
        assert "Traceback" not in errors
    results.unlink()
    assert capse("--resume", "--out", "study")[0] == 0
    assert json.loads(results.read_text())["best_validation"] == json.loads(whole)["best_validation"]


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


def test_two_processes_share_one_study_in_sqlite(work):
    """Begun at the same moment in the same folder: every trial is trained, and none twice."""
    command = ("quick.yaml", "--data", "planted", "--out", "study", "--resume", "--json", *DRAWN)
    processes = [start(*command), start(*command)]
    results = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], results
    trained = [set(re.findall(r"^trial (\d+): ", errors, re.MULTILINE)) for _, errors in results]
    assert trained[0].isdisjoint(trained[1])
    assert trained[0] | trained[1] == set("012345")
    complete = max((json.loads(output) for output, _ in results), key=len)
    assert sorted(row["trial"] for row in complete) == [0, 1, 2, 3, 4, 5]


@pytest.mark.slow
def test_two_processes_share_one_grid(work):
    (work / "long.yaml").write_text(GRID % 400)
    command = ("long.yaml", "--data", "planted", "--out", "study", "--resume", "--json")
    processes = [start(*command), start(*command)]
    results = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], results
    trained = [set(re.findall(r"^trial (\d+): ", errors, re.MULTILINE)) for _, errors in results]
    assert trained[0] | trained[1] == set("0123")
    assert all(trained)


@contextmanager
def postgresql(folder):
    """A server of our own, by a user that is not root: PostgreSQL refuses that one."""
    initdb, postgres = shutil.which("initdb"), shutil.which("postgres")
    if not initdb or not postgres:
        pytest.skip("PostgreSQL is not installed")
    user = None
    if os.getuid() == 0:
        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("there is no user postgres to run the server as")
        for path in (folder, *folder.parents[:2]):
            os.chmod(path, 0o755)
        os.chown(folder, user.pw_uid, user.pw_gid)
    options = {"user": user.pw_uid, "group": user.pw_gid} if user else {}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, **options}
    subprocess.run([initdb, "-D", folder / "db", "-U", "capse", "-A", "trust"], check=True, **quiet)
    server = subprocess.Popen([postgres, "-D", folder / "db", "-k", folder, "-c", "listen_addresses="], **quiet)
    try:
        import psycopg

        def answers():
            try:
                psycopg.connect(f"postgresql://capse@/postgres?host={folder}").close()
            except psycopg.OperationalError:
                return False
            return True

        wait_for(answers, server, 20)
        yield f"postgresql://capse:secret@/postgres?host={folder}"
    finally:
        server.terminate()
        server.wait()


@pytest.mark.slow
def test_machines_share_one_study_in_postgresql(work, tmp_path_factory):
    """Two folders, as on two machines, begun at the same moment on an empty database; then a third that looks on."""
    (work / "long.yaml").write_text(GRID % 400)
    with postgresql(tmp_path_factory.mktemp("server")) as url:
        command = ("long.yaml", "--data", "planted", "--storage", url, "--json", *DRAWN)
        processes = [start(*command, "--out", out) for out in ("one", "two")]
        results = [process.communicate(timeout=120) for process in processes]
        assert [process.returncode for process in processes] == [0, 0], results
        trained = [set(re.findall(r"^trial (\d+): ", errors, re.MULTILINE)) for _, errors in results]
        assert all(trained)
        assert trained[0].isdisjoint(trained[1])
        assert trained[0] | trained[1] == set("012345")
        assert "secret" not in Path("one/study.yaml").read_text()
        third = start(*command, "--out", "three")
        output, errors = third.communicate(timeout=120)
        assert "6 trials, 6 of them trained before" in errors
        best, *_ = json.loads(output)
        assert best["run"].startswith(f"{socket.gethostname()}:{work}/")
        training = yaml.safe_load(Path("three/best.yaml").read_text())["training"]
        assert {key: training[key.split(".")[1]] for key in best["settings"]} == best["settings"]


def bad(*arguments, content=GRID % 2):
    return content, ["grid.yaml", "--data", "planted", "--out", "out", *arguments]


BAD = {
    "jobs without a grid": (
        (GRID, ["--data", "planted", "--out", "out", "--jobs", "2"]),
        "--storage are about a grid: name",
    ),
    "no data": ((GRID % 2, ["grid.yaml", "--out", "out"]), "no data is named: give --data"),
    "an unknown grid": ((GRID, ["capse-papr", "--out", "out"]), "unknown grid 'capse-papr': did you mean"),
    "no YAML": (bad(content="grid: {"), "grid.yaml, line 1 is not valid YAML"),
    "an unknown recipe": (bad(content="recipe: transse"), "unknown recipe 'transse': did you mean 'transe'"),
    "an unknown key": (bad(content="grid: {model.filter: [1]}"), "did you mean 'model.filters'?"),
    "an empty list": (bad(content="grid: {model.filters: []}"), "grid: model.filters is []: write a list"),
    "a wrong value": (bad(content="grid: {model.filters: [50, many]}"), "model.filters is 'many': write a whole"),
    "a wrong option": (bad("--set", "training.epoch=3"), "did you mean 'training.epochs'?"),
    "no jobs": (bad("--jobs", "0"), "--jobs is 0: choose 1 or more"),
    "an unknown sampler": (bad("--sampler", "tpr"), "search.sampler is 'tpr': choose from grid, random, tpe"),
    "no number of trials": (bad("--sampler", "tpe"), "nothing says how many trials to draw with tpe"),
    "a storage of a grid": (bad("--storage", "sqlite:///x.db"), "search.storage is given for a grid"),
    "a storage that is no URL": (bad(*DRAWN, "--storage", "x.db"), "search.storage is 'x.db': write a URL"),
    "a storage that is not there": (
        bad(*DRAWN, "--storage", "postgresql://me:secret@127.0.0.1:1/x"),
        "cannot use the storage postgresql://me@127.0.0.1:1/x (connection failed",
    ),
    "another grid": (
        (GRID % 3, ["grid.yaml", "--data", "planted", "--out", "study", "--resume"]),
        "the study in study was begun with another recipe: resume it with",
    ),
    "somebody's folder": (bad("--out", "planted"), "planted is not empty and not a study"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_nothing_written(capse, work, case):
    (content, arguments), message = BAD[case]
    if "study" in arguments:
        capse("quick.yaml", "--data", "planted", "--out", "study")
    Path("grid.yaml").write_text(content)
    before = {path: path.stat().st_mtime_ns for path in work.rglob("*")}
    status, output, errors = capse(*arguments)
    assert (status, output) == (2, "")
    (line,) = errors.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert "secret" not in line
    assert {path: path.stat().st_mtime_ns for path in work.rglob("*")} == before, "something was written"


def test_a_start_that_fits_no_trial_is_refused_before_the_first(capse, work, planted):
    fit(planted, Recipe.resolve(model="transe", overrides=["model.dim=3", "training.epochs=0"]), out="start")
    status, _, errors = capse("quick.yaml", "--data", "planted", "--out", "study", "--set", "start.run=start")
    assert (status, errors) == (2, "error: model.dim is 4, and 3 in start: give both the same model.dim\n")
    assert not Path("study").exists()
