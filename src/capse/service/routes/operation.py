"""For those who run the service: health, readiness, reloads and metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field

from capse.service.guard import GuardedRoute, needs
from capse.service.problems import Problem, documented
from capse.service.state import service_of

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
    reload_failed: str | None = Field(None, description="Why the last reload failed", examples=[None])


@router.get("/health", responses=documented(example=Health))
async def health() -> Health:
    """Whether the process answers. It says nothing of what it can do; see `/ready`."""
    return Health(status="ok")


@router.get("/ready", responses=documented("unavailable", example=Ready))
async def ready(request: Request) -> Ready:
    """What is in service, where the database can be used.

    After a failed reload the former models go on, and `reload_failed` says why. The database is looked at once a
    second.
    """
    service = service_of(request)
    await service.check_store()
    return Ready(status="ready", versions=service.models.versions, reload_failed=service.reload_error or None)


@router.post("/v1/admin/reload", response_model=Ready, **needs("admin", "reload-failed", body=False, example=Ready))
async def reload(request: Request) -> Response:
    """Load the runs again beside those in service, and swap them without dropping a request.

    A damaged run changes nothing: the former one goes on. With several workers the others follow in a moment.
    """
    service = service_of(request)
    if not await service.reload():
        raise Problem("reload-failed", service.reload_error, "repair the run; what was in service still is")
    service.tell_other_workers()
    return JSONResponse(Ready(status="ready", versions=service.models.versions, reload_failed=None).model_dump())


class _PrometheusText(Response):
    media_type = CONTENT_TYPE_LATEST


_METRICS = needs("admin", body=False)
_METRICS["responses"][200] = {"content": {CONTENT_TYPE_LATEST: {"example": "capse_requests_in_flight 1.0\n"}}}


@router.get("/metrics", response_class=_PrometheusText, **_METRICS)
async def metrics(request: Request) -> Response:
    """Metrics for Prometheus."""
    return _PrometheusText(service_of(request).metrics.text())
