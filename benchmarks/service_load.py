"""`capse serve` under a bounded load from a second process: predictions over all of WN18RR, and lists re-ranked.

Run with ``CAPSE_DATA=... python -m benchmarks service``; ``SECONDS=3`` in the environment makes it short. Predictions:
CapsE with N = 400 on 40,943 entities, every question a different one, at several numbers of clients that each wait for
their answer. Re-ranking: ten documents, k = 200, N = 400, every user with a profile of 60 clicks, 200 requests a second
whatever the answers take. Both models are untrained: what scoring costs does not depend on what was learned. What the
service's process spends of the cores on a request is measured as well: it does not depend on what others do meanwhile.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.rerank_speed import DOCUMENTS, FILTERS, NOW, SHOWN, untrained_run
from capse.experiments.fit import fit
from capse.experiments.recipe import Recipe
from capse.graph.dataset import load_graph

SECONDS = float(os.environ.get("SECONDS", "20"))  # of each measurement
CONNECTIONS = (1, 2, 8, 32)
RATE = 200  # lists a second
USERS, CLICKS = 200, 60
QUESTIONS = 5_000
PORT = re.compile(r"http://127\.0\.0\.1:(\d+)")


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return {
            "task": "capse serve with one worker, a client on the same cores; milliseconds as the client sees them",
            "seconds_each": SECONDS,
            "predict": _predict(Path(folder)),
            "rerank": _rerank(Path(folder)),
        }


def _predict(folder: Path) -> dict[str, Any]:
    overrides = ["training.epochs=0", f"model.filters={FILTERS}", "training.device=cpu"]
    fit("wn18rr", Recipe.resolve(model="capse", overrides=overrides), out=folder / "graph")
    graph = load_graph("wn18rr")
    random = np.random.default_rng(0)
    bodies = []
    for head, relation, tail in random.permutation(graph.train)[:QUESTIONS].tolist():
        known = (
            {"head": graph.entities.labels[head]} if random.random() < 0.5 else {"tail": graph.entities.labels[tail]}
        )
        bodies.append({"relation": graph.relations.labels[relation], "top": 10, **known})
    with _served(folder / "graph", folder) as service:
        _load(service, "/v1/predict", bodies[:64], seconds=1, connections=4)  # warms up
        found: dict[str, Any] = {}
        for connections in CONNECTIONS:
            before = _batches(service.port)
            measured = _load(service, "/v1/predict", bodies, seconds=SECONDS, connections=connections)
            calls, questions = (after - earlier for after, earlier in zip(_batches(service.port), before, strict=True))
            found[str(connections)] = measured | {"questions_per_call": round(questions / calls, 2)}
    return {"entities": len(graph.entities), "filters": FILTERS, "clients": found}


def _rerank(folder: Path) -> dict[str, Any]:
    random = np.random.default_rng(0)
    untrained_run("capse", {"filters": FILTERS}, random).save(folder / "search")
    with _served(folder / "search", folder) as service:
        for user in range(USERS):
            clicks = [
                {
                    "id": f"{user}-{number}",
                    "kind": "click",
                    "user": f"p{user}",
                    "session": "s",
                    "time": NOW + number,
                }
                | {"document": f"d{random.integers(DOCUMENTS)}"}
                for number in range(CLICKS)
            ]
            _post(service.port, "/v1/events", {"events": clicks})
        bodies = [
            {
                "user": f"p{number % USERS}",
                "session": "s",
                "query": "a query",
                "documents": [f"d{document}" for document in random.integers(DOCUMENTS, size=SHOWN)],
            }
            for number in range(2_000)
        ]
        _load(service, "/v1/rerank", bodies[:64], seconds=1, connections=2)
        measured = _load(service, "/v1/rerank", bodies, seconds=SECONDS, rate=RATE)
    return {"documents": SHOWN, "filters": FILTERS, "rate": RATE, "target_99th_percentile": 15.0} | measured


class Service(NamedTuple):
    """Where it listens and which process it is."""

    port: int
    process: int

    def core_seconds(self) -> float:
        """What it has spent of the cores so far."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _served(run: Path, folder: Path) -> Iterator[Service]:
    """A service in a process of its own."""
    command = [sys.executable, "-m", "capse", "serve", str(run), "--port", "0", "--log-level", "warning"]
    process = subprocess.Popen(
        [*command, "--db", str(folder / f"{run.name}.db")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    try:
        assert process.stdout is not None
        address = PORT.search(process.stdout.readline())
        assert address is not None
        yield Service(int(address[1]), process.pid)
    finally:
        process.terminate()
        process.wait(60)


def _load(service: Service, path: str, bodies: list[Any], **plan: float) -> dict[str, Any]:
    """Latencies in milliseconds and requests per second, as a client in a process of its own sees them."""
    given = json.dumps({"host": "127.0.0.1", "port": service.port, "path": path, "bodies": bodies, **plan})
    command, spent = [sys.executable, "-m", "benchmarks.load_client"], service.core_seconds()
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, check=True, timeout=120 + plan["seconds"]
    )
    answer = json.loads(done.stdout)
    spent = service.core_seconds() - spent
    latencies, statuses = np.array(answer["measured"]).T
    assert (statuses == 200).all(), f"statuses {np.unique(statuses, return_counts=True)}"
    percentiles = {str(q): round(1e3 * float(np.percentile(latencies, q)), 2) for q in (50, 90, 99)}
    return {
        "requests": len(latencies),
        "requests_per_second": round(len(latencies) / answer["seconds"], 1),
        "milliseconds": percentiles,
        "core_milliseconds_a_request": round(1e3 * spent / len(latencies), 2),
    }


def _post(port: int, path: str, body: Any) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as response:
        assert response.status == 200


def _batches(port: int) -> tuple[float, float]:
    """Calls of the kernel so far, and questions answered by them."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
        text = response.read().decode()
    found = [re.search(rf"^capse_batch_questions_{part} (\S+)", text, re.MULTILINE) for part in ("count", "sum")]
    assert found[0] is not None
    assert found[1] is not None
    return float(found[0][1]), float(found[1][1])


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
