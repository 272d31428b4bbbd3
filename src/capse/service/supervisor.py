"""Several processes that answer on one socket: started, replaced when they die, told to reload, stopped.

uvicorn's own supervisor replaces its workers on SIGHUP, and ends when one cannot start: a damaged run would take the
service down. See docs/decisions/029-service-libraries.md.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import queue
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.synchronize import Event
from pathlib import Path

from prometheus_client.multiprocess import mark_process_dead

from capse.service.observe import METRICS_VARIABLE
from capse.service.settings import ServiceSettings
from capse.service.worker import HELD_BACK, answer_as_worker

log = logging.getLogger("capse.service")

_PAUSE = 5.0  # seconds between two replacements of workers that died: a run that cannot be loaded kills them all
_CHECK = 0.2  # seconds between two looks at the workers


class Supervisor:
    """Keeps ``settings.workers`` processes running until it is told to stop."""

    def __init__(self, settings: ServiceSettings, listening: socket.socket) -> None:
        self._settings, self._listening = settings, listening
        self._signals: queue.SimpleQueue[int] = queue.SimpleQueue()

    def run(self, started: Callable[[], None]) -> None:
        """Call ``started`` once every worker answers; return when all have stopped."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, _: self._signals.put(number))
        with tempfile.TemporaryDirectory(prefix="capse-workers-") as folder:
            metrics = Path(folder, "metrics")
            metrics.mkdir()
            os.environ[METRICS_VARIABLE] = str(metrics)  # workers write there; each answers with the sum
            self._settings = replace(self._settings, rates=Path(folder, "rates"))
            workers = [_Worker(self._settings, self._listening) for _ in range(self._settings.workers)]
            try:
                self._watch(workers, started)
            finally:
                for worker in workers:
                    worker.tell(signal.SIGTERM)
                for worker in workers:
                    worker.process.join()

    def _watch(self, workers: list[_Worker], started: Callable[[], None]) -> None:
        waiting, replaced = True, -_PAUSE
        while (number := self._next_signal()) not in (signal.SIGTERM, signal.SIGINT):
            if number == signal.SIGHUP:
                for worker in workers:
                    worker.tell(signal.SIGHUP)
            if waiting and all(worker.ready.is_set() for worker in workers):
                waiting = False
                started()
            for place, worker in enumerate(workers):
                if worker.process.exitcode is not None and time.monotonic() > replaced + _PAUSE:
                    log.error("worker died", extra={"fields": {"status": worker.process.exitcode}})
                    mark_process_dead(worker.process.pid)  # type: ignore[no-untyped-call]
                    workers[place] = _Worker(self._settings, self._listening)
                    replaced = time.monotonic()

    def _next_signal(self) -> int | None:
        try:
            return self._signals.get(timeout=_CHECK)
        except queue.Empty:
            return None


class _Worker:
    """A process that answers, and whether it does yet."""

    def __init__(self, settings: ServiceSettings, listening: socket.socket) -> None:
        spawn: SpawnContext = multiprocessing.get_context("spawn")
        self.ready: Event = spawn.Event()
        self.process: SpawnProcess = spawn.Process(target=answer_as_worker, args=(settings, listening, self.ready))
        held_back = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)  # the new process starts with this mask
        self.process.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, held_back)

    def tell(self, number: int) -> None:
        if self.process.pid is not None and self.process.exitcode is None:
            os.kill(self.process.pid, number)
