"""Real servers: signals, workers, slow and hostile clients, runs swapped under load."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from benchmarks.servers import CONNECTED, LISTENING, Service, held_by, sockets
from capse.service.limits import BODY_SECONDS, HEADER_SECONDS, MAX_BODY, READ_SECONDS
from capse.service.store import Store

pytestmark = pytest.mark.slow

ASK = {"relation": "knows", "head": "e00", "top": 1}
POST = b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture
def run(graph_run, tmp_path):
    return shutil.copytree(graph_run, tmp_path / "run")


def ask(server, **more):
    return httpx.post(f"{server.address}/v1/predict", json=ASK | more, timeout=30)


def of_status(answer):
    return int(answer[9:12])


class Asking:
    """Clients that go on asking; every answer is kept."""

    def __init__(self, server, clients=8):
        self.server, self.answers, self.failures, self.stop = server, [], [], threading.Event()
        self.threads = [threading.Thread(target=self._ask) for _ in range(clients)]

    def _ask(self):
        with httpx.Client(timeout=30) as client:
            while not self.stop.is_set():
                try:
                    response = client.post(f"{self.server.address}/v1/predict", json=ASK)
                    self.answers.append((response.status_code, response.json()))
                except httpx.HTTPError as error:
                    self.failures.append(error)
                    return

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()


def wait_for(condition, seconds=60):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("waited in vain")


def children_of(service):
    """The process ids of a server's workers that live."""
    return Service(service.port, service.process.pid).workers()


@pytest.mark.parametrize("workers", [1, 2])
def test_runs_are_swapped_under_load_without_a_dropped_request(server, run, make_graph_run, workers):
    service = server(run, "--workers", workers)
    scores = {16.0}
    with Asking(service) as clients:
        wait_for(lambda: len(clients.answers) > 20)
        for scale in (2.0, 3.0, 4.0):
            make_graph_run(run.with_name("next"), scale=scale)
            shutil.rmtree(run)
            run.with_name("next").rename(run)
            service.process.send_signal(signal.SIGHUP)
            scores.add(16 * scale)
            wait_for(lambda: {a[1]["predictions"][0]["score"] for a in clients.answers[-20:]} == {max(scores)})
        (run / "model.safetensors").write_bytes(b"damaged")
        service.process.send_signal(signal.SIGHUP)
        wait_for(lambda: sum(entry["event"] == "reload failed" for entry in service.entries()) == workers)
        seen = len(clients.answers)
        wait_for(lambda: len(clients.answers) > seen + 20)
    assert clients.failures == []
    assert {status for status, _ in clients.answers} == {200}
    assert {answer["predictions"][0]["score"] for _, answer in clients.answers} == scores
    by_model = {(answer["model"], answer["predictions"][0]["score"]) for _, answer in clients.answers}
    assert len(by_model) == 4  # no answer of one model under another's name
    ready = httpx.get(f"{service.address}/ready").json()
    assert "RUN/model.safetensors is damaged" in ready["reload_failed"]


def test_a_key_reloads_every_worker(server, run, make_graph_run):
    service = server(run, "--workers", 2)
    make_graph_run(run, scale=2.0)
    assert httpx.post(f"{service.address}/v1/admin/reload", timeout=60).status_code == 200
    wait_for(lambda: {ask(service).json()["predictions"][0]["score"] for _ in range(20)} == {32.0})
    text = httpx.get(f"{service.address}/metrics").text
    assert 'capse_reloads_total{outcome="done"} 2.0' in text


@pytest.mark.parametrize("workers", [1, 2])
def test_requests_in_flight_are_answered_before_it_stops(server, graph_run, workers):
    service = server(graph_run, "--workers", workers)
    body = json.dumps({"queries": [ASK | {"top": 30}] * 256}).encode()
    connections = []
    for _ in range(6):  # all but the last byte: the request is in flight until we send it
        connection = service.connect()
        connection.sendall(POST + f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:-1])
        connections.append(connection)
    answering = children_of(service) or [service.process.pid]
    wait_for(lambda: [read for state, read, _ in sockets(service.port) if state == CONNECTED] == [True] * 6)
    listening = {inode for state, _, inode in sockets(service.port) if state == LISTENING}
    assert listening <= held_by(answering)
    service.process.send_signal(signal.SIGTERM)
    wait_for(lambda: listening.isdisjoint(held_by(answering)))
    for connection in connections:
        connection.sendall(body[-1:])
    for connection in connections:
        answer = b""
        while part := connection.recv(65536):
            answer += part
        assert of_status(answer) == 200
        assert len(json.loads(answer.partition(b"\r\n\r\n")[2])["results"]) == 256
        connection.close()
    assert service.process.wait(60) == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_stops_it_without_a_traceback(server, graph_run, workers):
    service = server(graph_run, "--workers", workers)
    assert ask(service).status_code == 200
    assert service.stop(signal.SIGINT) == 0
    assert "Traceback" not in service.log.read_text()


def test_a_worker_that_dies_is_replaced(server, graph_run):
    service = server(graph_run, "--workers", 2)
    workers = children_of(service)
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    service.process.send_signal(signal.SIGHUP)  # nor is the new one lost that is still loading its runs
    wait_for(lambda: all(ask(service).status_code == 200 for _ in range(5)))
    wait_for(lambda: len(children_of(service)) == 2)
    assert "worker died" in [entry["event"] for entry in service.entries()]


def test_a_keep_alive_client_has_all_of_its_keys_rate_with_three_workers(server, graph_run, tmp_path):
    with Store.open(str(tmp_path / "capse.db")) as store:
        headers = {"Authorization": f"Bearer {store.add_key('shared', ['predict'], per_minute=6)}"}
    service = server(graph_run, "--workers", 3, "--require-keys", "--db", tmp_path / "capse.db")
    with httpx.Client(headers=headers, timeout=30) as kept:
        answers = [kept.get(f"{service.address}/v1/relations") for _ in range(4)]
    answers += [httpx.get(f"{service.address}/v1/relations", headers=headers, timeout=30) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200] * 6 + [429] * 2


def test_workers_of_a_parent_that_was_killed_let_go_of_the_port(server, graph_run):
    service = server(graph_run, "--workers", 2)
    workers = children_of(service)
    service.process.kill()
    assert service.process.wait(30) == -signal.SIGKILL
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    assert [state for state, _, _ in sockets(service.port) if state == LISTENING] == []


def test_slow_clients_are_sent_away_and_others_are_served_meanwhile(server, graph_run):
    service = server(graph_run)
    started = time.monotonic()
    slow = {
        "nothing": b"",
        "half a line": b"GET /hea",
        "half the headers": POST,
        "half the body": POST + b"Content-Length: 100\r\n\r\n{",
    }
    connections = {name: [service.connect(60) for _ in range(20)] for name in slow}
    for name, many in connections.items():
        for connection in many:
            connection.sendall(slow[name])
    while time.monotonic() - started < HEADER_SECONDS / 2:  # and some that drip
        for connection in connections["half the headers"]:
            connection.sendall(b"X: y\r\n")
        assert ask(service).status_code == 200
        time.sleep(0.2)
    for name, many in connections.items():
        for connection in many:
            answer = b""
            while part := connection.recv(65536):
                answer += part
            assert of_status(answer) == 408, (name, answer)
            assert b"application/problem+json" in answer
            connection.close()
    assert time.monotonic() - started < BODY_SECONDS + 10
    assert ask(service).status_code == 200


def test_answers_that_nobody_reads_are_given_up(server, graph_run):
    service = server(graph_run)
    body = json.dumps({"queries": [ASK | {"top": 30}] * 256}).encode()
    request = POST + f"Content-Length: {len(body)}\r\n\r\n".encode() + body

    def held():
        """Connections that the process has, whatever the system still keeps of them."""
        return sum(
            os.readlink(entry).startswith("socket:") for entry in Path(f"/proc/{service.process.pid}/fd").iterdir()
        )

    before = held()
    with ExitStack() as closing:
        for _ in range(3):
            connection = closing.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            connection.connect(("127.0.0.1", service.port))
            connection.sendall(20 * request)  # 15 MB of answers: more than the system keeps for us
        wait_for(lambda: held() == before + 3)
        wait_for(lambda: held() == before, READ_SECONDS + 40)
        assert ask(service).status_code == 200


def test_an_endless_header_is_refused(server, graph_run):
    service = server(graph_run)
    for request in (POST + b"X-Long: " + b"y" * 200_000, b"GET /" + b"y" * 200_000, POST + b"A: b\r\n" * 50_000):
        answer = service.raw(request)
        assert of_status(answer) == 431, answer[:100]
    assert ask(service).status_code == 200


@pytest.mark.parametrize("kept", [b"", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"], ids=["first", "second"])
@pytest.mark.parametrize(
    ("path", "header", "status"),
    [
        (b"/health", b"X: " + b"y" * 31_000, 200),
        (b"/health", b"X: " + b"y" * 33_000, 431),
        (b"/health?" + b"y" * 33_000, b"X: y", 431),
        (b"/health", b"\r\n".join(b"X%d: y" % n for n in range(4_000)), 431),
    ],
    ids=["below", "one header", "the line", "many headers"],
)
def test_headers_that_come_whole_have_the_same_limit(module_server, kept, path, header, status):
    with module_server.connect() as connection:
        if kept:
            connection.sendall(kept)
            answer = b""
            while not answer.endswith(b'{"status":"ok"}'):
                answer += connection.recv(65536)
            assert of_status(answer) == 200
        connection.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n" + header + b"\r\n\r\n")
        assert of_status(connection.recv(65536)) == status


def test_a_hundred_megabytes_are_refused_at_once(server, graph_run):
    service = server(graph_run)
    size = 100 * 2**20
    for head in (POST + f"Content-Length: {size}\r\n\r\n".encode(), POST + b"Transfer-Encoding: chunked\r\n\r\n"):
        with service.connect() as connection:
            connection.sendall(head)
            sent = 0
            try:
                while sent < size:
                    block = b" " * 65536
                    connection.sendall(b"10000\r\n" + block + b"\r\n" if b"chunked" in head else block)
                    sent += len(block)
            except (BrokenPipeError, ConnectionResetError):
                pass
            assert sent < 4 * MAX_BODY
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    assert int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) < 2**20  # a gigabyte, torch and all
    with service.connect() as connection:  # who waits for the answer gets it
        connection.sendall(POST + f"Content-Length: {size}\r\n\r\n".encode())
        assert of_status(connection.recv(65536)) == 413
    assert ask(service).status_code == 200


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET /../../../../etc/passwd",
        b"GET /..%2f..%2f..%2fetc%2fpasswd",
        b"GET /%2e%2e/%2e%2e/etc/passwd",
        b"GET //etc/passwd",
        b"GET /....//....//etc/passwd",
        b"GET /index.html/../../web.py",
        b"GET /page/..%5c..%5cweb.py",
        b"GET /.env",
        b"GET /%00",
        b"GET file:///etc/passwd",
        b"GET http://evil.example/etc/passwd",
    ],
)
def test_no_path_leads_to_a_file(module_server, request_line):
    answer = module_server.raw(request_line + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert of_status(answer) in (400, 404), answer
    assert b"root:" not in answer
    assert b"import" not in answer


@pytest.fixture(scope="module")
def module_server(graph_run, tmp_path_factory, start_server):
    service = start_server(graph_run, folder=tmp_path_factory.mktemp("server"))
    yield service
    service.stop()


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x00" * 100,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        POST + b"Content-Length: nonsense\r\n\r\n",
        POST + b"Content-Length: -1\r\n\r\n",
        POST + b"Content-Length: 99999999999999999999\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n",
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
    ids=repr,
)
def test_what_is_not_http_is_refused(module_server, request_bytes):
    answer = module_server.raw(request_bytes, timeout=60)
    assert of_status(answer) in (400, 413), answer
    assert ask(module_server).status_code == 200


def test_many_connections_at_once(module_server):
    async def all_of_them():
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(limits=limits, timeout=60) as client:
            heads = [f"e{i % 30:02}" for i in range(600)]
            asked = [client.post(f"{module_server.address}/v1/predict", json=ASK | {"head": head}) for head in heads]
            return heads, await asyncio.gather(*asked)

    heads, responses = asyncio.run(all_of_them())
    for head, response in zip(heads, responses, strict=True):
        assert response.json()["predictions"][0]["score"] == 4 * (4 - int(head[1:]) / 8)
    text = httpx.get(f"{module_server.address}/metrics").text
    calls, questions = (float(re.search(rf"capse_batch_questions_{part} (\S+)", text)[1]) for part in ("count", "sum"))
    assert questions >= 600
    assert calls < questions, "some were scored together; how many is a matter of the machine"
