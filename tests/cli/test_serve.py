"""capse serve: what it refuses, in one line and before anything is served."""

from __future__ import annotations

import builtins
import socket

import pytest

from capse.experiments.fit import fit
from capse.experiments.recipe import Recipe


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    (folder / "data").mkdir()
    (folder / "data" / "train.tsv").write_text("".join(f"a{i}\tlikes\tb{i % 3}\n" for i in range(20)))
    overrides = ["model.dim=4", "training.epochs=0", "training.device=cpu"]
    fit(folder / "data", Recipe.resolve(model="transe", overrides=overrides), out=folder / "run")
    return folder / "run"


def refused(run_command, *arguments):
    status, output, errors = run_command("serve", *arguments)
    assert (status, output) == (2, "")
    (line,) = errors.splitlines()
    return line


def test_a_port_in_use(run, run_command):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refused(run_command, run, "--port", port)
    assert line == (
        f"error: cannot listen on 127.0.0.1 port {port} (Address already in use): choose another with --port"
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--port", "70000"], "--port is 70000: choose one from 1 to 65535"),
        (["--workers", "0"], "--workers is 0: start 1 or more"),
        (["--log-level", "loud"], "--log-level is 'loud': choose one of debug, info, warning, error"),
        (["--host", "192.0.2.1", "--port", "0"], "cannot listen on 192.0.2.1"),
        (["--host", "nowhere.invalid", "--port", "0"], "cannot listen on nowhere.invalid"),
        (["--host", "0.0.0.0", "--port", "0"], "holds no API key: make one with 'capse key add'"),
        (["--require-keys", "--port", "0"], "holds no API key: make one with 'capse key add'"),
        (["--require-keys", "--port", "0", "--db", "no/such/folder/x.db"], "cannot make the database"),
        (["--require-keys", "--port", "0", "--db", "mysql://x"], "there is no support for mysql"),
    ],
)
def test_options_that_make_no_sense(run, run_command, tmp_path, monkeypatch, options, says):
    monkeypatch.chdir(tmp_path)
    assert says in refused(run_command, run, *options)


def test_runs_that_cannot_be_served(run, run_command, tmp_path):
    assert "there is no run in" in refused(run_command, tmp_path / "nowhere", "--port", 0)
    assert "is not a run" in refused(run_command, tmp_path, "--port", 0)
    assert "is a second graph run" in refused(run_command, run, run, "--port", 0)
    assert "there is no run in" in refused(run_command, tmp_path / "nowhere", "--port", 0, "--workers", 2)


def test_without_its_dependencies(run, run_command, monkeypatch):
    plain = builtins.__import__

    def without(name, *arguments, **options):
        if name == "capse.service.server":
            raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")
        return plain(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    assert refused(run_command, run).endswith("not installed: pip install 'capse[service]'")
