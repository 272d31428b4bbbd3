"""A former version of a run is put back in service, and answers from then on."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time

import httpx
import pytest

from benchmarks.servers import served
from capse.cli import main
from capse.runs.versions import Versions
from capse.service.loaded_models import fingerprint

ASKED = {"user": "ada", "query": "words", "documents": ["d1", "d2", "d3"]}


def two_versions(search_run, make_search_run, folder):
    run = folder / "run"
    shutil.copytree(search_run, run)
    versions = Versions(run)
    with versions.held():
        versions.adopt()
        make_search_run(versions.next_path(), seed=5)
        versions.put_in_service("0002", "handed over")
    return versions


def test_a_version_that_is_put_back_answers(search_run, make_search_run, serve, database, tmp_path):
    versions = two_versions(search_run, make_search_run, tmp_path)
    client = serve(versions.run, database=database)
    for version in ("0002", "0001", "0002"):
        versions.put_in_service(version, "rolled back")
        assert client.post("/v1/admin/reload").status_code == 200
        answers = [client.post("/v1/rerank", ASKED).json()["model"] for _ in range(3)]
        assert answers == [fingerprint(versions.folder / version)] * 3


def test_a_run_without_versions_stays_as_it_is(search_run, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(search_run, run)
    with pytest.raises(SystemExit, match="2"):
        main(["search", "rollback", str(run)])
    assert f"{run} has no versions: 'capse search retrain' makes them" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.slow
def test_a_roll_back_drops_no_request(search_run, make_search_run, tmp_path):
    """Two workers, four clients that go on asking, and there and back by the command."""
    versions = two_versions(search_run, make_search_run, tmp_path)
    answers, stopped = [], threading.Event()

    def ask(address):
        with httpx.Client(timeout=30) as client:
            while not stopped.is_set():
                answer = client.post(f"{address}/v1/rerank", json=ASKED)
                answers.append((answer.status_code, answer.json().get("model")))

    with served(versions.run, tmp_path, workers=2) as service:
        clients = [threading.Thread(target=ask, args=(f"http://127.0.0.1:{service.port}",)) for _ in range(4)]
        for client in clients:
            client.start()
        try:
            for version in ("0001", "0002"):
                command = ["search", "rollback", str(versions.run), "--to", version, "--tell", str(service.process)]
                subprocess.run([sys.executable, "-m", "capse", *command], check=True, capture_output=True)
                wanted, until = fingerprint(versions.folder / version), time.monotonic() + 60
                while {model for _, model in answers[-20:]} != {wanted} and time.monotonic() < until:
                    time.sleep(0.05)
                assert {model for _, model in answers[-20:]} == {wanted}
        finally:
            stopped.set()
            for client in clients:
                client.join()
    assert {status for status, _ in answers} == {200}
