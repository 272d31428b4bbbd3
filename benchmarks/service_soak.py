"""`capse serve` for long: an hour of mixed load, and workers that are killed in the middle of a stream of events.

Run with ``python -m benchmarks soak``; ``SECONDS=600`` and ``KILLS=20`` in the environment make it shorter. Two
workers serve a small blend. `tests/service/test_soak.py` asserts of what is measured here that it is as it should be.

Mixed load: people who are shown a list, have it re-ranked, click, leave again at once or not, and whose clients send
events twice; lists of two hundred, explanations, and people who have themselves deleted. Kills: clients that send a
request again until it is answered with 200, as clients should, while one worker after the other gets a SIGKILL. Then
everything that was acknowledged must be stored, once, and every state must be what the stored events make of a user if
they are folded from the beginning, by a store of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.load_client import Connection
from benchmarks.servers import Postgres, Service, postgres, served
from capse.experiments.search.methods import METHODS
from capse.search.logs.search_log import SearchLog
from capse.search.logs.simulation import SimulationSettings, simulate
from capse.search.users.user_state import UserState
from capse.service.store import Event, Store

SECONDS, KILLS = float(os.environ.get("SECONDS", "3600")), int(os.environ.get("KILLS", "100"))
WORKERS, CLIENTS = 2, 8
STEPS = 20  # of all people, a second
DELETIONS = 60  # seconds between two
BETWEEN = 40  # events that are acknowledged between two kills, at least
RECONNECT = 40  # requests after which a client asks for another connection, and so perhaps for another worker

Clock = Callable[[], bool]  # whether to go on
Send = Callable[[str, Any], Awaitable[Any]]


def run() -> dict[str, Any]:
    binaries = Postgres.installed()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = small_blend(folder / "run")
        found: dict[str, Any] = {"task": "capse serve with two workers and a blend, clients on the same cores"}
        if SECONDS:
            found["mixed_load"] = mixed_load(folder / "run", log, folder, SECONDS)
        if KILLS and binaries is not None:
            with postgres(binaries) as server:
                found["kills"] = kills(folder / "run", folder, server.new_database(), KILLS)
        return found


def small_blend(folder: Path, settings: SimulationSettings | None = None) -> SearchLog:
    """Train a blend on a simulated log, quickly: all that any ranker does; returns the log."""
    log, blend = simulate(settings or SimulationSettings()).log, METHODS["blend"]
    quick = ["vectors.dimensions=50", "model.filters=4", "training.epochs=2"]
    blend.train(log, blend.resolve(overrides=quick), out=folder)
    return log


# Mixed load


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
    """Somebody who clicks and is forgotten, again and again."""
    connection, turn, due = Connection(port), 0, time.monotonic() + every
    while goes_on():
        await asyncio.sleep(min(1.0, every / 4))
        if time.monotonic() < due:
            continue
        turn, due = turn + 1, due + every
        user = f"gone{turn}"
        click = {"id": "c", "kind": "click", "user": user, "session": "s", "time": time.time(), "document": "d1"}
        await _timed(seen, "event", connection, "/v1/events", click)
        await _timed(seen, "delete", connection, f"/v1/users/{user}", None, "DELETE")
        status, _ = await connection.send(f"/v1/users/{user}", method="GET")
        if status != 404:
            seen.wrong.append(f"{user} is still there: {status}")
    connection.close()


async def _timed(seen: Seen, kind: str, connection: Connection, path: str, body: Any, method: str = "POST") -> Any:
    started = time.perf_counter()
    status, answer = await connection.send(path, b"" if body is None else json.dumps(body).encode(), method)
    seen.milliseconds[kind].append(1e3 * (time.perf_counter() - started))
    seen.statuses[status] += 1
    assert status == 200, (path, body, answer)
    return json.loads(answer)


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    found = {str(q): round(float(np.percentile(values, q)), 2) for q in (50, 99)}
    return found | {"count": len(values)}


# Kills


@dataclass
class Streams:
    """What clients sent and were told."""

    told: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))  # outcomes by event
    failures: int = 0  # requests that got no answer, or another than 200, and were sent again
    stopped: bool = False


def kills(run: Path, folder: Path, database: str, count: int) -> dict[str, Any]:
    """Kill workers so often, then compare what is stored with what was acknowledged."""
    streams, started = Streams(), time.monotonic()
    with served(run, folder, database=database, workers=WORKERS) as service:
        asyncio.run(_killed(service, streams, count))
    return {
        "kills": count,
        "workers": WORKERS,
        "clients": CLIENTS,
        "database": database.partition(":")[0] if "://" in database else "sqlite",
        "seconds": round(time.monotonic() - started, 1),
        "acknowledged": len(streams.told),
        "sent_again": streams.failures,
        **compare_with_stored(streams, database, folder),
    }


async def _killed(service: Service, streams: Streams, count: int) -> None:
    random = np.random.default_rng(0)

    async def kill() -> None:
        for _ in range(count):
            before = len(streams.told)
            while len(streams.told) < before + BETWEEN or not (victims := service.answering()):
                await asyncio.sleep(0.02)
            await asyncio.sleep(random.uniform(0, 0.05))
            with suppress(ProcessLookupError):
                os.kill(int(random.choice(victims)), signal.SIGKILL)
        streams.stopped = True

    await asyncio.gather(kill(), *(_stream(service.port, client, streams) for client in range(CLIENTS)))


async def _stream(port: int, client: int, streams: Streams) -> None:
    """Pairs of events, half of them of a user whom all share; of the clicks one in three bounces."""
    connection, number = Connection(port), 0
    begin = time.time() - 86_400
    while not streams.stopped:
        number += 1
        user = "ada" if number % 2 else f"u{client}"
        name, at = f"{client}.{number}", {"time": begin + number, "session": f"s{number // 20}", "user": user}
        about = at | {"query": name, "document": f"d{number % 300}"}
        pair = [about | {"id": name, "kind": "click"}]
        if number % 3 == 0:
            pair.append(at | {"id": f"{name}.left", "kind": "dwell", "click": name, "dwell": 2.0})
        body = json.dumps({"events": pair}).encode()
        if number % RECONNECT == 0:
            connection.close()
        outcomes = None
        while outcomes is None:
            try:
                status, answer = await connection.send("/v1/events", body)
                assert status < 500
                outcomes = json.loads(answer)["outcomes"]
            except (OSError, EOFError, AssertionError):
                connection.close()
                streams.failures += 1
                await asyncio.sleep(0.05)
        for event, outcome in zip(pair, outcomes, strict=True):
            streams.told[user, str(event["id"])].append(outcome)
    connection.close()


def compare_with_stored(streams: Streams, database: str, folder: Path) -> dict[str, Any]:
    """How many acknowledged events are lost or stored twice, and users' states that are another than they should be."""
    with Store.open(database) as store, Store.open(str(folder / "folded.db")) as again:
        users = sorted({user for user, _ in streams.told})
        stored = {user: store.events(user) for user in users}
        times = Counter((user, event.id) for user, events in stored.items() for event in events)
        wrong = [user for user in users if _plain(store.state(user)) != _plain(fold_again(again, stored[user], user))]
        counted = Counter(change.step for change in _all_changes(store))
        by_fold = Counter(change.step for change in _all_changes(again))
        return {
            "stored": times.total(),
            "lost": sum(key not in times for key in streams.told),
            "stored_twice": sum(found > 1 for found in times.values()),
            "never_sent": sum(key not in streams.told for key in times),
            "states": len(users),
            "states_other_than_folded_from_the_beginning": len(wrong),
            "journal_as_folded_from_the_beginning": counted == by_fold,
        }


def fold_again(store: Store, events: Sequence[Event], user: str) -> UserState | None:
    """The state that an empty store comes to if it is told one event after the other."""
    for event in events:
        store.add([event])
    return store.state(user)


def _all_changes(store: Store) -> list[Any]:
    found: list[Any] = []
    while changes := store.changes(found[-1].number if found else 0):
        found += changes
    return found


def _plain(state: UserState | None) -> Any:
    return None if state is None else (state.clicks, state.texts)


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
