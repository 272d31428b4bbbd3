"""One process that answers: the application under uvicorn, with the signals that concern it."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import wait
from multiprocessing.synchronize import Event

import torch
import uvicorn

from capse.service.app import create_app
from capse.service.limits import MAX_CONNECTIONS, SHUTDOWN_SECONDS, THREADS
from capse.service.observe import configure_logs
from capse.service.settings import ServiceSettings
from capse.service.state import Service

log = logging.getLogger("capse.service")

BACKLOG = 2048  # connections that may wait to be accepted
HELD_BACK = {signal.SIGHUP, signal.SIGINT}  # signals that wait until a worker has loaded its runs

_KEEP_ALIVE = 30  # seconds that a connection may be idle between requests
_SWITCH = 0.001  # seconds that a thread may keep Python's lock while the loop that answers waits for it; 5 ms otherwise


def answer(settings: ServiceSettings, listening: socket.socket, started: Callable[[], None]) -> None:
    """Answer until SIGTERM or SIGINT; SIGHUP loads the runs again. ``started`` is called before the first request."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})

    def on_start(service: Service) -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(THREADS, "capse"))
        loop.add_signal_handler(signal.SIGHUP, service.reload_soon)
        sys.setswitchinterval(_SWITCH)
        service.clean_soon()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
        started()

    config = uvicorn.Config(
        create_app(settings, on_start),
        http="capse.service.protocol:BoundedProtocol",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        backlog=BACKLOG,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn raises them again when all is done, and all is done
    uvicorn.Server(config).run([listening])


def answer_as_worker(settings: ServiceSettings, listening: socket.socket, ready: Event) -> None:
    """The same in a process that a `Supervisor` started."""
    configure_logs(settings.log_level)
    threading.Thread(target=_stop_with_parent, name="capse-parent", daemon=True).start()
    torch.set_num_threads(max(1, torch.get_num_threads() // settings.workers))  # or they would be in each other's way
    answer(settings, listening, ready.set)


def _stop_with_parent() -> None:
    """End this process when its supervisor is gone, however it ended: an orphan would go on holding the port."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    log.error("the parent process died, so this worker stops")
    os.kill(os.getpid(), signal.SIGTERM)
