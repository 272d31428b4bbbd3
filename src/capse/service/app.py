"""The application: middleware, routers, start and stop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

import capse
from capse.service import problems, web
from capse.service.endpoints import mount_endpoints
from capse.service.head import HeadAsGet
from capse.service.observe import Observe
from capse.service.settings import ServiceSettings
from capse.service.state import Service
from capse.service.store import SCOPES

DESCRIPTION = """Ask a knowledge graph for missing facts, re-rank search results for a person, learn from clicks.

Errors are `application/problem+json` (RFC 9457) with a `remedy`. A key, where one is needed, is sent as
`Authorization: Bearer KEY`."""


def create_app(settings: ServiceSettings, on_start: Callable[[Service], None] | None = None) -> FastAPI:
    """An application whose runs are loaded; a `CapseError` where they cannot be.

    ``on_start`` is called in the loop that will answer, before the first request.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if on_start is not None:
            on_start(service)
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
    mount_endpoints(app)
    web.install(app)
    problems.install(app)
    service = app.state.service = Service(settings)
    app.add_middleware(HeadAsGet)
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


_TAGS = {
    "graph": "A knowledge graph: names, predictions, scores and their reasons.",
    "search": "Personalised search: re-ranking, events and profiles.",
    "operation": "For those who run the service.",
}
