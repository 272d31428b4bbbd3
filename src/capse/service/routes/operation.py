"""For those who run the service: is it alive, is it ready, how does it fare."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field

from capse.service.guard import GuardedRoute, needs
from capse.service.problems import documented

router = APIRouter(tags=["operation"], route_class=GuardedRoute)


class Health(BaseModel):
    """The process answers."""

    status: str = Field(examples=["ok"])


class Ready(BaseModel):
    """What is in service, and whether the last attempt to replace it failed."""

    status: str = Field(examples=["ready"])
    versions: dict[str, str] = Field(
        description="The versions of the models in service, by kind", examples=[{"graph": "d3b07384d113"}]
    )
    reload_failed: str | None = Field(
        None, description="Why the last attempt to load the runs anew failed", examples=[None]
    )


@router.get("/health", responses=documented())
async def health() -> Health:
    """Whether the process answers. It says nothing of what it can do; see `/ready`."""
    return Health(status="ok")


@router.get("/ready", responses=documented())
async def ready(request: Request) -> Ready:
    """What is in service. After a failed reload the former models go on, and `reload_failed` says why."""
    service = request.app.state.service
    return Ready(status="ready", versions=service.models.versions, reload_failed=service.trouble or None)


@router.get("/metrics", response_class=Response, **needs("metrics", body=False))
async def metrics(request: Request) -> Response:
    """Figures for Prometheus."""
    return Response(request.app.state.service.metrics.text(), media_type=CONTENT_TYPE_LATEST)
