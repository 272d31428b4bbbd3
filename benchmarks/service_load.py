"""`capse serve` under a bounded load from a second process: predictions over all of WN18RR, and lists re-ranked.

Run with ``CAPSE_DATA=... python -m benchmarks service``; ``SECONDS=3`` in the environment makes it short. Predictions:
CapsE with N = 400 on 40,943 entities, every question a different one, at several numbers of clients that each wait for
their answer. Re-ranking: ten documents, k = 200, N = 400, every user with a profile of 60 clicks, 200 requests a second
whatever the answers take. Both models are untrained: what scoring costs does not depend on what was learned. What the
service's processes spend of the cores on a request is measured as well: it does not depend on what others do meanwhile.

What is served by default, trained on gitsearch (``RUN`` in the environment names a run that is there), is asked by two
workers: ten documents at 200 requests a second, two hundred by clients that wait, and clicks that are stored durably,
one a request.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.rerank_speed import DOCUMENTS, FILTERS, SHOWN, untrained_run
from benchmarks.servers import Postgres, Service, postgres, served
from capse.experiments.fit import fit
from capse.experiments.recipe import Recipe
from capse.experiments.search.methods import BEST, METHODS, method_of
from capse.graph.dataset import load_graph
from capse.search.ingest import open_log

SECONDS = float(os.environ.get("SECONDS", "20"))  # of each measurement
CONNECTIONS = (1, 2, 8, 32)
RATE = 200  # lists a second
USERS, CLICKS = 200, 60
CLICKED = 1_760_000_000  # seconds since 1970
QUESTIONS = 5_000
WORKERS, MANY, WAITING, CLICKING = (
    2,
    200,
    8,
    16,
)  # workers; documents, and clients that send so many; clients that click
TARGETS = {"rerank": {"99": 15.0}, "rerank_many": {"50": 60.0}, "clicks_per_second": 1_000}


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return {
            "task": "capse serve with one worker, a client on the same cores; milliseconds as the client sees them",
            "seconds_each": SECONDS,
            "predict": _predict(Path(folder)),
            "rerank": _rerank(Path(folder)),
            "best": best(Path(folder)),
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
    with served(folder / "graph", folder) as service:
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
    with served(folder / "search", folder) as service:
        for user in range(USERS):
            clicks = [
                {
                    "id": f"{user}-{number}",
                    "kind": "click",
                    "user": f"p{user}",
                    "session": "s",
                    "time": CLICKED + number,
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


def best(folder: Path) -> dict[str, Any]:
    """What is served by default."""
    log = open_log(Path(os.environ["CAPSE_DATA"]) / "gitsearch")
    run = Path(os.environ.get("RUN", folder / BEST))
    if not run.is_dir():
        METHODS[BEST].train(log, METHODS[BEST].resolve(), out=run)
    random = np.random.default_rng(0)
    people = {f"p{user}": random.choice(log.documents.ids, CLICKS).tolist() for user in range(USERS)}
    queries = [log.queries[query] for query in log.query[log.of_split("test")[:2_000]]]

    def asked(documents: int) -> list[Any]:
        return [
            {"user": f"p{number % USERS}", "session": "s", "query": query}
            | {"documents": random.choice(log.documents.ids, documents, replace=False).tolist()}
            for number, query in enumerate(queries)
        ]

    found: dict[str, Any] = {"method": method_of(run), "workers": WORKERS, "targets": TARGETS}
    with served(run, folder, workers=WORKERS) as service:
        for user, documents in people.items():
            _post(service.port, "/v1/events", {"events": [_click(user, n, one) for n, one in enumerate(documents)]})
        for _ in range(4):  # each worker counts what everybody clicked, and opens its connections
            _load(service, "/v1/rerank", asked(SHOWN)[:64], seconds=1, connections=8)
        found["rerank"] = {"documents": SHOWN, "rate": RATE}
        found["rerank"] |= _load(service, "/v1/rerank", asked(SHOWN), seconds=SECONDS, rate=RATE)
        found["rerank_many"] = {"documents": MANY, "clients": WAITING}
        found["rerank_many"] |= _load(service, "/v1/rerank", asked(MANY), seconds=SECONDS, connections=WAITING)
    binaries = Postgres.installed()
    with postgres(binaries) if binaries else nullcontext() as server:
        databases = {"sqlite": str(folder / "clicks.db")} | ({"postgresql": server.new_database()} if server else {})
        found["clicks"] = {name: _clicks(run, folder, url, log.documents.ids) for name, url in databases.items()}
    return found


def _clicks(run: Path, folder: Path, database: str, documents: Any) -> dict[str, Any]:
    """Single clicks, each acknowledged when it is on disk."""
    with served(run, folder, database=database, workers=WORKERS) as service:
        bodies = [_click(f"p{number % 997}", number, documents[number % len(documents)]) for number in range(100_000)]
        _load(service, "/v1/events", bodies[-500:], seconds=1, connections=CLICKING)
        return {"clients": CLICKING} | _load(service, "/v1/events", bodies, seconds=SECONDS, connections=CLICKING)


def _click(user: str, number: int, document: str) -> dict[str, Any]:
    about = {"id": f"{user}-{number}", "kind": "click", "user": user, "session": f"s{number // 10}", "query": "a query"}
    return about | {"time": CLICKED + number, "document": document}


def _load(service: Service, path: str, bodies: list[Any], **plan: float) -> dict[str, Any]:
    """Latencies in milliseconds and requests per second, as a client in a process of its own sees them."""
    given = json.dumps({"port": service.port, "path": path, "bodies": bodies, **plan})
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
