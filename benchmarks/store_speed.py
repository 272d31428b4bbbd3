"""Events stored durably in SQLite, one writer and many at once, and what is remembered of a user read.

Run with ``python -m benchmarks store``. The yardstick is a flush of the disk by itself (4 KiB appended to a file, then
fsync), timed in turns with the writers: a writer alone can be no faster, many that share transactions can.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from capse.service.store import Event, Store

DOCUMENTS, EVENTS, READS, THREADS = 1_000, 1_600, 2_000, (1, 8, 16, 32)
START, HOUR = 1_600_000_000_000_000, 3_600_000_000  # microseconds


def run() -> dict[str, Any]:
    """Events per second by the number of threads that send them one by one, and milliseconds of single calls."""
    with tempfile.TemporaryDirectory() as folder, Store.open(f"{folder}/capse.db") as store:
        flush = _milliseconds(lambda: _flush(Path(folder) / "flushed"), EVENTS)
        rates = {str(threads): _rate(store, threads) for threads in THREADS}
        flush_after = _milliseconds(lambda: _flush(Path(folder) / "flushed"), EVENTS)
        return {
            "task": "clicks into SQLite, each acknowledged when it is on disk, and the user's state with it",
            "events_per_second": {threads: round(rate, 1) for threads, rate in rates.items()},
            "gain_of_sharing": round(rates[str(THREADS[-1])] / rates[str(THREADS[0])], 2),
            "milliseconds": {
                "flush": flush,
                "flush_after": flush_after,
                "state": _milliseconds(lambda: store.state("1.0"), READS),
                "state_of_a_stranger": _milliseconds(lambda: store.state("nobody"), READS),
            },
        }


def _rate(store: Store, threads: int) -> float:
    """Events per second that so many threads get acknowledged, each a user of its own."""

    def send(thread: int) -> None:
        for number in range(EVENTS // threads):
            user = f"{threads}.{thread}"
            id, session = f"{user}.{number}", str(number // 5)
            click = {"id": id, "kind": "click", "user": user, "session": session, "time": START + number * HOUR}
            store.add([Event(**click, query="query", document=str(number % DOCUMENTS))])

    senders = [threading.Thread(target=send, args=(thread,)) for thread in range(threads)]
    start = time.perf_counter()
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    return EVENTS // threads * threads / (time.perf_counter() - start)


def _flush(path: Path) -> None:
    with path.open("ab", buffering=0) as file:
        file.write(b"x" * 4096)
        os.fsync(file)


def _milliseconds(call: Callable[[], Any], times: int) -> dict[str, float]:
    measured = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        measured.append(1000 * (time.perf_counter() - start))
    median, late = np.percentile(measured, [50, 99])
    return {"p50": round(float(median), 3), "p99": round(float(late), 3)}
