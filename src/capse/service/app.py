"""The application: middleware, routers, start and stop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import torch
from fastapi import FastAPI

import capse
from capse.service import problems, web
from capse.service.observe import Observe, configure_logs
from capse.service.routes import ROUTERS
from capse.service.settings import THREADS, ServiceSettings
from capse.service.state import Service
from capse.service.store import SCOPES

SETTINGS_VARIABLE = "CAPSE_SERVICE"  # how worker processes are told their settings
READY_VARIABLE = "CAPSE_SERVICE_READY"  # a folder in which they say that they are ready

_SWITCH = 0.001  # seconds that a thread may keep Python's lock while the loop that answers waits for it; 5 ms otherwise

DESCRIPTION = """Ask a knowledge graph for missing facts, re-rank search results for a person, learn from clicks.

Errors are `application/problem+json` (RFC 9457) with a `remedy`. A key, where one is needed, is sent as
`Authorization: Bearer KEY`."""


def create_app(settings: ServiceSettings, *, on_signals: bool = False) -> FastAPI:
    """An application whose runs are loaded; a `CapseError` where they cannot be. SIGHUP reloads ``on_signals``."""
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if on_signals:
            sys.setswitchinterval(_SWITCH)
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, "capse"))
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, service.reload_soon)
        if READY_VARIABLE in os.environ:
            (Path(os.environ[READY_VARIABLE]) / f"ready-{os.getpid()}").touch()
        yield
        service.close()

    app = FastAPI(
        title="capse",
        version=capse.__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        openapi_tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
    )
    app.state.service = service
    for router in ROUTERS:
        app.include_router(router)
    web.install(app)
    problems.install(app)
    app.add_middleware(Observe, metrics=service.metrics)
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        schema = plain()
        scheme = {"type": "http", "scheme": "bearer", "description": f"An API key. Scopes: {', '.join(SCOPES)}."}
        schema["components"]["securitySchemes"] = {"key": scheme}
        schema["components"]["schemas"] |= problems.problem_schemas()
        return schema

    app.openapi = openapi  # type: ignore[method-assign]
    return app


def worker_app() -> FastAPI:
    """The application of a worker process, which finds its settings in the environment."""
    settings = ServiceSettings.from_text(os.environ[SETTINGS_VARIABLE])
    configure_logs(settings.log_level)
    torch.set_num_threads(
        max(1, torch.get_num_threads() // settings.workers)
    )  # or workers would be in each other's way
    return create_app(settings, on_signals=True)


_TAGS = {
    "graph": "A knowledge graph: names, predictions, scores and their reasons.",
    "search": "Personalised search: re-ranking, events and profiles.",
    "operation": "For those who run the service.",
}
