"""Endpoints: ours, and those of other packages.

A package adds endpoints by naming a FastAPI `APIRouter` in its own ``pyproject.toml``::

    [project.entry-points."capse.endpoints"]
    degree = "capse_degree:router"

The router's routes are of the class `GuardedRoute` and say with `needs` which scope a caller's key must have::

    from fastapi import APIRouter, Request
    from pydantic import BaseModel
    from capse.service.endpoints import GuardedRoute, needs, service_of

    router = APIRouter(prefix="/v1", tags=["graph"], route_class=GuardedRoute)

    class Degree(BaseModel):
        facts: int

    @router.get("/degree/{entity}", **needs("predict", "unknown-name", body=False, example={"facts": 9}))
    async def degree(request: Request, entity: str) -> Degree:
        \"\"\"How many facts an entity is in.\"\"\"
        model = service_of(request).models.require_graph()
        return Degree(facts=len(model.predictor.graph.known.around(model.entities.id(entity))))

Keys, scopes, rates, limits on bodies, problem+json, logs, metrics and `/openapi.json` are then as for ours; the
problems that `needs` names after the scope are those that the description lists. `service_of` gives the `Service`.
Of it an endpoint may use

settings          what the service was told when it started (`ServiceSettings`)
models            the runs in service: ``require_graph()`` is a `GraphModel`, ``require_search()`` a `SearchModel`, and
                  the answer says so where none is served. Take each once per request: a reload swaps them
batcher           ``ask(predictor, questions)`` scores questions together with those of other requests
require_store()   the `Store` of events, profiles and keys, where a search run is served
metrics           ``metrics.registry`` takes Prometheus metrics of your own

What computes for more than a millisecond, or asks the store, belongs into ``asyncio.to_thread``: one loop answers all.
`require_user` refuses a key that speaks for another user. A `CapseError` or a `Problem` becomes problem+json.
"""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

from capse.errors import ExtensionError
from capse.registry import Registry
from capse.service.guard import GuardedRoute, needs, require_user
from capse.service.problems import Problem
from capse.service.state import Service, service_of

__all__ = ["ENDPOINTS", "GuardedRoute", "Problem", "Service", "mount_endpoints", "needs", "require_user", "service_of"]

# The first is found soonest: those that are asked for most come first.
_OURS = (
    "events",
    "rerank",
    "predict",
    "entities",
    "score",
    "similar",
    "explain",
    "facts",
    "users",
    "samples",
    "operation",
)
ENDPOINTS: Registry[APIRouter] = Registry(
    "endpoint", "capse.endpoints", {name: f"capse.service.routes.{name}:router" for name in _OURS}
)


def mount_endpoints(app: FastAPI) -> None:
    """Have the application answer to every endpoint; an ExtensionError names one that nobody would guard."""
    taken: set[tuple[str, str]] = set()
    for name, router in ENDPOINTS.items():
        paths = {(method, path) for route in router.routes for method, path in _described(name, route)}
        if paths & taken:
            method, path = min(paths & taken)
            raise _refused(name, f"answers to {method} {path}, which is taken", "choose another path")
        taken |= paths
        app.include_router(router)


def _described(name: str, route: object) -> list[tuple[str, str]]:
    """The methods and the path of a route that is guarded."""
    if not isinstance(route, GuardedRoute):
        path = getattr(route, "path", type(route).__name__)
        raise _refused(name, f"has an unguarded route ({path})", "make its router with route_class=GuardedRoute")
    if route.needed_scope is None and name not in ENDPOINTS.builtin:
        raise _refused(name, f"says no scope for {route.path}", "give the route **needs(SCOPE)")
    return [(method, route.path) for method in route.methods or ()]


def _refused(name: str, what: str, remedy: str) -> ExtensionError:
    return ExtensionError(f"the endpoint {name!r} {what}", f"{remedy}, or uninstall its package")
