"""Workers of `capse serve` that are killed in the middle of a stream of events, and what is then stored.

Run with ``python -m benchmarks kills``, on PostgreSQL; ``KILLS=20`` in the environment makes it shorter. Clients send a
request again until it is answered with 200, as clients should, while one of two workers after the other gets a SIGKILL.
Then everything that was acknowledged must be stored, once, and every state must be what the stored events make of a
user if they are folded from the beginning, by a store of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.load_client import Connection
from benchmarks.servers import Postgres, Service, postgres, served
from benchmarks.service_soak import CLIENTS, WORKERS, small_blend
from capse.search.users.user_state import UserState
from capse.service.store import Event, Store

KILLS = int(os.environ.get("KILLS", "100"))
BETWEEN = 40  # events that are acknowledged between two kills, at least
RECONNECT = 40  # requests after which a client asks for another connection, and so perhaps for another worker


def run() -> dict[str, Any]:
    binaries = Postgres.installed()
    assert binaries is not None, "install PostgreSQL"
    with tempfile.TemporaryDirectory() as name, postgres(binaries) as server:
        folder = Path(name)
        small_blend(folder / "run")
        found = {"task": "capse serve with two workers that are killed, clients on the same cores"}
        return found | kills(folder / "run", folder, server.new_database(), KILLS)


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
