"""Stores on SQLite and on PostgreSQL, and events for them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psycopg
import pytest

from capse.service.store import Event, Store

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
BACKENDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]


class Postgres:
    """A server of our own, in a temporary folder, on a socket there, run by a user without privileges."""

    def __init__(self, binaries):
        self.binaries = binaries
        self.folder = Path(tempfile.mkdtemp(prefix="capse-postgres-"))
        self.account: Any = {}
        if os.geteuid() == 0:  # the server refuses to be run by root
            self.account = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            shutil.chown(self.folder, "nobody", "nogroup")
        self.call("initdb", "-D", "data", "-U", "capse", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self.schemas = 0

    def call(self, program, *arguments):
        output = self.folder / "output"
        with output.open("ab") as log:  # a pipe would stay open in the server
            command = [self.binaries / program, *arguments]
            done = subprocess.run(command, cwd=self.folder, stdout=log, stderr=log, **self.account)
        assert done.returncode == 0, output.read_text()

    def start(self):
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder}"
        self.call("pg_ctl", "start", "-w", "-D", "data", "-l", "log", "-o", options)

    def stop(self):
        self.call("pg_ctl", "stop", "-w", "-D", "data", "-m", "fast")

    def new_database(self):
        """As good as one: a schema of its own, which costs nothing to make."""
        self.schemas += 1
        url = f"postgresql://capse@/postgres?host={self.folder}"
        with psycopg.connect(url) as connection:
            connection.execute(f"CREATE SCHEMA test{self.schemas}")
        return f"{url}&options=-csearch_path%3Dtest{self.schemas}"


@pytest.fixture(scope="session")
def postgres():
    if not BINARIES:
        pytest.skip("no PostgreSQL server under /usr/lib/postgresql")
    server = Postgres(BINARIES[-1])
    server.start()
    yield server
    server.stop()
    shutil.rmtree(server.folder)


@pytest.fixture
def path(tmp_path):
    """Where SQLite's file will be."""
    return tmp_path / "capse.db"


@pytest.fixture(params=BACKENDS)
def url(request, path):
    """An empty database."""
    return str(path) if request.param == "sqlite" else request.getfixturevalue("postgres").new_database()


@pytest.fixture
def store(url):
    with Store.open(url) as store:
        yield store


@pytest.fixture
def lite(path):
    """A store in SQLite, for what PostgreSQL's server sees to."""
    with Store.open(str(path)) as store:
        yield store


@pytest.fixture
def make():
    """An event with what its kind needs; the rest as given."""

    times: dict[str, int] = {}  # a second later for each new id

    def event(id, kind="click", user="ada", **given):
        needs: dict[str, dict[str, Any]] = {
            "impression": {"query": "engine", "documents": ("d1", "d2")},
            "click": {"query": id, "document": "d1"},
            "dwell": {"click": "c", "dwell": 40.0},
        }
        time = times.setdefault(id, 1_700_000_000_000_000 + 1_000_000 * len(times))
        return Event(**{"id": id, "kind": kind, "user": user, "session": "s1", "time": time, **needs[kind], **given})

    return event
