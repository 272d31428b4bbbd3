"""`capse serve` for long: an hour of mixed load on two workers that serve a small blend.

Run with ``python -m benchmarks soak``; ``SECONDS=600`` in the environment makes it shorter. What is measured here
`tests/service/test_soak.py` asserts to be as it should be.

People are shown a list, have it re-ranked, click, leave again at once or not, and their clients send events twice;
there are lists of two hundred, explanations, and people who have themselves deleted. What the processes have of memory
is looked at every second.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.load_client import Connection
from benchmarks.servers import Service, served
from capse.experiments.search.methods import METHODS
from capse.search.logs.search_log import SearchLog
from capse.search.logs.simulation import SimulationSettings, simulate

SECONDS = float(os.environ.get("SECONDS", "3600"))
WORKERS, CLIENTS = 2, 8
STEPS = 20  # of all people, a second
DELETIONS = 60  # seconds between two
BUSY = 503

Clock = Callable[[], bool]  # whether to go on


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = small_blend(folder / "run")
        found = {"task": "capse serve with two workers and a blend, clients on the same cores"}
        return found | mixed_load(folder / "run", log, folder, SECONDS) | {"load_average": os.getloadavg()[2]}


def small_blend(folder: Path, settings: SimulationSettings | None = None) -> SearchLog:
    """Train a blend on a simulated log, quickly: all that any ranker does; returns the log."""
    log, blend = simulate(settings or SimulationSettings()).log, METHODS["blend"]
    quick = ["vectors.dimensions=50", "model.filters=4", "training.epochs=2"]
    blend.train(log, blend.resolve(overrides=quick), out=folder)
    return log


@dataclass
class Seen:
    """What the clients saw."""

    milliseconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # by kind of request
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def mixed_load(run: Path, log: SearchLog, folder: Path, seconds: float) -> dict[str, Any]:
    """What clients saw and what memory the processes had, in megabytes."""
    with served(run, folder, workers=WORKERS) as service:
        seen, memory = asyncio.run(_mixed(service, log, seconds))
    quarter = max(len(memory) // 4, 1)
    parts = [float(np.mean(memory[start : start + quarter])) / 2**20 for start in range(0, 4 * quarter, quarter)]
    return {
        "seconds": seconds,
        "workers": WORKERS,
        "clients": CLIENTS,
        "requests": int(seen.statuses.total()),
        "statuses": {str(status): count for status, count in sorted(seen.statuses.items())},
        "wrong_answers": seen.wrong,
        "milliseconds": {kind: _percentiles(values) for kind, values in sorted(seen.milliseconds.items())},
        "resident_megabytes_by_quarter": [round(part, 1) for part in parts],
        "last_quarter_over_second": round(parts[3] / parts[1], 4),
    }


async def _mixed(service: Service, log: SearchLog, seconds: float) -> tuple[Seen, list[int]]:
    seen, until, memory = Seen(), time.monotonic() + seconds, []

    def goes_on() -> bool:
        return time.monotonic() < until

    async def watch() -> None:
        while goes_on():
            memory.append(service.resident())
            await asyncio.sleep(min(1.0, seconds / 40))

    people = [_person(number, service.port, log, goes_on, seen) for number in range(CLIENTS)]
    await asyncio.gather(watch(), _delete(service.port, goes_on, seen, min(DELETIONS, seconds / 5)), *people)
    return seen, memory


async def _person(number: int, port: int, log: SearchLog, goes_on: Clock, seen: Seen) -> None:
    """One who searches, again and again: every step a list, sometimes more than that."""
    random, connection, user = np.random.default_rng(number), Connection(port), f"p{number}"
    due = time.monotonic() + random.random()

    async def send(kind: str, path: str, body: Any) -> Any:
        return await _timed(seen, kind, connection, path, body)

    step = 0
    while goes_on():
        step, due = step + 1, due + CLIENTS / STEPS
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        impression = int(random.integers(len(log)))
        shown = [log.documents.ids[document] for document in log.document[log.rows(np.array([impression]))]]
        about = {"user": user, "session": f"s{step // 10}", "query": log.queries[log.query[impression]]}
        at = {"time": time.time()}
        await send("event", "/v1/events", about | at | {"id": f"i{step}", "kind": "impression", "documents": shown})
        answer = await send("rerank 10", "/v1/rerank", about | {"documents": shown, "explain": step % 50 == 0})
        ranked = [one["document"] for one in answer["documents"]]
        if sorted(ranked) != sorted(shown):
            seen.wrong.append(f"{shown} became {ranked}")
        click = about | at | {"id": f"c{step}", "kind": "click", "document": ranked[int(random.geometric(0.5)) % 10]}
        for expected in ("accepted", "repeated") if step % 10 == 0 else ("accepted",):
            outcomes = (await send("event", "/v1/events", click))["outcomes"]
            if outcomes != [expected]:
                seen.wrong.append(f"{click['id']}: {outcomes}")
        if step % 3 == 0:
            left = {"user": user, "session": about["session"], "id": f"d{step}", "kind": "dwell", "click": f"c{step}"}
            await send("event", "/v1/events", left | at | {"dwell": 3.0})
        if step % 20 == 0:
            many = [log.documents.ids[document] for document in random.permutation(len(log.documents))[:200]]
            await send("rerank 200", "/v1/rerank", about | {"documents": many})
    connection.close()


async def _delete(port: int, goes_on: Clock, seen: Seen, every: float) -> None:
    """Somebody who clicks and is forgotten, again and again, each time over a connection that was not idle."""
    turn, due = 0, time.monotonic() + every
    while goes_on():
        await asyncio.sleep(min(1.0, every / 4))
        if time.monotonic() < due:
            continue
        connection, turn, due = Connection(port), turn + 1, due + every
        user = f"gone{turn}"
        click = {"id": "c", "kind": "click", "user": user, "session": "s", "time": time.time(), "document": "d1"}
        await _timed(seen, "event", connection, "/v1/events", click)
        await _timed(seen, "delete", connection, f"/v1/users/{user}", None, "DELETE")
        status, _ = await connection.send(f"/v1/users/{user}", method="GET")
        if status != 404:
            seen.wrong.append(f"{user} is still there: {status}")
        connection.close()


async def _timed(seen: Seen, kind: str, connection: Connection, path: str, body: Any, method: str = "POST") -> Any:
    """An answer; a service that is too busy for one is asked again, as it says."""
    status = 0
    while status in (0, BUSY):
        await asyncio.sleep(1.0 if status else 0.0)
        started = time.perf_counter()
        status, answer = await connection.send(path, b"" if body is None else json.dumps(body).encode(), method)
        seen.milliseconds[kind].append(1e3 * (time.perf_counter() - started))
        seen.statuses[status] += 1
    assert status == 200, (path, body, answer)
    return json.loads(answer)


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    found = {str(q): round(float(np.percentile(values, q)), 2) for q in (50, 99)}
    return found | {"count": len(values)}


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
