"""Tiny runs with known answers, and a client that asks the application without a network."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from typing import Any

import httpx
import pytest
import torch

from benchmarks import servers
from capse import DistMult
from capse.graph.dataset import Graph
from capse.graph.link_prediction.calibration import Calibration
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.vocabulary import Vocabulary
from capse.models import build_model, model_settings
from capse.runs.folder import RunFolder
from capse.search.logs.simulation import SimulationSettings, simulate
from capse.search.rankers.search_run import SearchRun, personal_model
from capse.search.users.user_state import ProfileSettings
from capse.search.vectors.vector_space import VectorSettings, build_vectors
from capse.service.app import create_app
from capse.service.settings import ServiceSettings

PEOPLE = 30
WIDTH = 8


def write_graph_run(path, *, calibrated=True, scale=1.0):
    """DistMult of one number: score(h, r, t) = h·r·t, so that answers are known. Entities e00 to e29."""
    facts = [(f"e{i:02}", "knows", f"e{j:02}") for i in range(12) for j in range(12) if (i + j) % 3 == 0]
    others = [(f"e{i:02}", "hates/loves", f"e{(i + 1) % PEOPLE:02}") for i in range(PEOPLE)]
    labelled = Graph.from_triples([*facts[::2], *others], facts[1::2], name="small")
    names = [f"Person {i}" for i in range(PEOPLE - 2)] + ["Änne Öz", "Änne Öz"]
    entities = Vocabulary(labelled.entities.labels, names, "entity")
    graph = Graph("small", entities, labelled.relations, labelled.train, labelled.valid, labelled.test)
    model = build_model(DistMult(dim=1), PEOPLE, 2)
    with torch.no_grad():
        model.entities[:, 0] = 4 - torch.arange(PEOPLE) / 8
        model.relations.fill_(scale)
    shutil.rmtree(path, ignore_errors=True)
    LinkPredictor(model, graph).save(path)
    if calibrated:
        fit = Calibration(2.0, -3.0, triples=10, seed=0, brier_score=0.1, expected_calibration_error=0.1)
        fit.save(RunFolder(path))
    return path


class Client:
    """Asks an application in this process, one request after another or many at once."""

    def __init__(self, app):
        self.app = app
        self.service = app.state.service
        self._runner = asyncio.Runner()
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._http = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000")

    def request(self, method, path, **options):
        return self._runner.run(self._http.request(method, path, **options))

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, json=None, **options):
        return self.request("POST", path, json=json, **options)

    def together(self, *requests):
        """Many (method, path, options) at once."""

        async def all_of_them():
            return await asyncio.gather(
                *(self._http.request(method, path, **options) for method, path, options in requests)
            )

        return self._runner.run(all_of_them())

    def close(self):
        self._runner.run(self._http.aclose())
        self._runner.close()
        self.service.close()


@pytest.fixture(scope="session")
def make_graph_run():
    return write_graph_run


@pytest.fixture(scope="session")
def graph_run(tmp_path_factory):
    return write_graph_run(tmp_path_factory.mktemp("graph") / "run")


def _start_and_close():
    clients = []

    def start(*runs, **settings):
        client = Client(create_app(ServiceSettings(runs=tuple(map(str, runs)), **settings)))
        clients.append(client)
        return client

    yield start
    for client in clients:
        client.close()


@pytest.fixture
def serve():
    """Makes clients of services, and closes them."""
    yield from _start_and_close()


@pytest.fixture(scope="module")
def module_serve():
    """The same for a whole module."""
    yield from _start_and_close()


@pytest.fixture(scope="module")
def client(graph_run, module_serve):
    return module_serve(graph_run)


@pytest.fixture(scope="session")
def simulated():
    return simulate(SimulationSettings(users=12, topics=8, documents=80, impressions=250, days=20))


@pytest.fixture(scope="session")
def make_search_run(simulated):
    """Writes an untrained run on a small simulated log."""

    def make(path, seed=0):
        space = build_vectors(simulated.log, VectorSettings(topics=WIDTH, iterations=3, seed=seed))
        settings = model_settings({"name": "capse", "dim": WIDTH})
        model = personal_model(settings, 0, WIDTH, seed=1)
        SearchRun(settings, ProfileSettings(user="profile"), model.eval(), space, []).save(path)
        return path

    return make


@pytest.fixture(scope="session")
def search_run(make_search_run, tmp_path_factory):
    return make_search_run(tmp_path_factory.mktemp("search") / "run")


@pytest.fixture(scope="session")
def postgres():
    binaries = servers.Postgres.installed()
    if binaries is None:
        pytest.skip("no PostgreSQL server under /usr/lib/postgresql")
    with servers.postgres(binaries) as server:
        yield server


@pytest.fixture
def database(tmp_path):
    return str(tmp_path / "capse.db")


class Server:
    """`capse serve` in a process of its own."""

    def __init__(self, *arguments, folder):
        self.log = folder / "log"
        command = [sys.executable, "-m", "capse", "serve", *map(str, arguments), "--port", "0"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder, env=environment
            )
        self.address = self.process.stdout.readline().strip()
        assert self.address, self.log.read_text()
        self.port = int(self.address.rpartition(":")[2])

    def entries(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def connect(self, timeout=30):
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def raw(self, request, timeout=30):
        """What a bare connection is answered."""
        with self.connect(timeout) as connection:
            connection.sendall(request)
            return read_all(connection)

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.stdout.close()
        return self.process.wait(60)


def read_all(connection):
    parts = []
    while True:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


@pytest.fixture(scope="session")
def start_server():
    return Server


@pytest.fixture
def server(tmp_path):
    """Starts servers, and stops them."""
    servers: list[Any] = []

    def start(*arguments):
        folder = tmp_path / f"server-{len(servers)}"
        folder.mkdir()
        servers.append(Server(*arguments, folder=folder))
        return servers[-1]

    yield start
    for one in servers:
        one.stop()
