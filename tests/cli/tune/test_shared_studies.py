"""Studies that several processes and machines share."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.cli.tune.processes import DRAWN, GRID, start, wait_for

pytestmark = pytest.mark.usefixtures("one_thread")


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
