"""Processes, signals and the listening socket.

One worker runs in this process. Several are spawned by uvicorn's supervisor, which starts a new one in place of one
that died. SIGTERM and SIGINT let requests in flight finish; SIGHUP has every worker load its runs anew.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from capse.errors import SettingsError
from capse.service.app import READY_VARIABLE, SETTINGS_VARIABLE, create_app
from capse.service.models import Models
from capse.service.observe import METRICS_VARIABLE, configure_logs
from capse.service.settings import MAX_CONNECTIONS, SHUTDOWN_SECONDS, ServiceSettings

log = logging.getLogger("capse.service")

_BACKLOG = 2048  # connections that may wait to be accepted
_PAUSE = 5.0  # seconds between two replacements of workers that died: a run that cannot be loaded kills them all
_KEEP_ALIVE = 30  # seconds that a connection may be idle between requests


def serve(settings: ServiceSettings, started: Callable[[str], None]) -> None:
    """Serve until a signal says stop; ``started`` is told the address once requests are answered."""
    listening = _listen(settings.host, settings.port)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{host}:{listening.getsockname()[1]}"
    configure_logs(settings.log_level)
    try:
        if settings.workers == 1:
            _serve_here(settings, listening, lambda: started(address))
        else:
            _serve_in_workers(settings, listening, lambda: started(address))
    finally:
        listening.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        remedy = "choose another with --port" if isinstance(host, str) and port else "choose another --host"
        raise SettingsError(f"cannot listen on {host} port {port} ({error.strerror or error})", remedy) from error
    listening.set_inheritable(True)
    return listening


def _config(app: Any, **options: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="capse.service.protocol:BoundedProtocol",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        backlog=_BACKLOG,
        **options,
    )


class _Server(uvicorn.Server):
    """A server that says when it has started."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._say_started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._say_started()


def _serve_here(settings: ServiceSettings, listening: socket.socket, started: Callable[[], None]) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to load anew
    app = create_app(settings, on_signals=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn raises them again when all is done, and all is done
    _Server(_config(app), started).run([listening])


class _Workers(Multiprocess):
    """uvicorn's supervisor; on SIGHUP workers load their runs anew in place of being replaced."""

    _replaced = 0.0  # when the last worker was, by the monotonic clock

    def keep_subprocess_alive(self) -> None:
        """Replace workers that died. uvicorn also asks whether they answer, and waits for one that dies meanwhile."""
        for place, process in enumerate(self.processes):
            due = time.monotonic() > self._replaced + _PAUSE
            if process.exitcode is not None and due and not self.should_exit.is_set():
                log.error("worker died", extra={"fields": {"status": process.exitcode}})
                self.processes[place] = Process(self.config, self.sockets)
                self.processes[place].start()
                self._replaced = time.monotonic()

    def handle_hup(self) -> None:
        for process in self.processes:
            if process.pid is not None and process.exitcode is None:
                os.kill(process.pid, signal.SIGHUP)


def _serve_in_workers(settings: ServiceSettings, listening: socket.socket, started: Callable[[], None]) -> None:
    Models.load(settings.runs)  # or every worker would fail, and be replaced by one that fails
    folder = Path(tempfile.mkdtemp(prefix="capse-serve-"))
    try:
        (folder / "metrics").mkdir()
        os.environ |= {
            SETTINGS_VARIABLE: settings.to_text(),
            METRICS_VARIABLE: str(folder / "metrics"),
            READY_VARIABLE: str(folder),
        }
        watcher = threading.Thread(target=_watch, args=(folder, settings.workers, started), daemon=True)
        watcher.start()
        config = _config(
            "capse.service.app:worker_app",
            factory=True,
            workers=settings.workers,
        )
        _Workers(config, sockets=[listening]).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _watch(folder: Path, workers: int, started: Callable[[], None]) -> None:
    """Call ``started`` when every worker has said that it is ready."""
    pause = threading.Event()
    while folder.is_dir():
        if len(list(folder.glob("ready-*"))) >= workers:
            started()
            return
        pause.wait(0.1)
