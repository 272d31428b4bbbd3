"""Endpoints of other packages: asked like ours, guarded like ours, described like ours."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from capse.errors import ExtensionError
from capse.registry import Registry
from capse.service import endpoints
from capse.service.store import Store

ROUTER = """
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from capse.service.endpoints import GuardedRoute, needs, service_of

router = APIRouter(prefix="/v1", tags=["graph"], route_class=GuardedRoute)


class Degree(BaseModel):
    facts: int = Field(examples=[9])


class Asked(BaseModel):
    entities: list[str] = Field(max_length=3)


@router.get("/degree/{entity}", **needs("predict", "unknown-name", body=False, example={"facts": 9}))
async def degree(request: Request, entity: str) -> Degree:
    '''How many facts an entity is in.'''
    model = service_of(request).models.require_graph()
    return Degree(facts=len(model.predictor.graph.known.around(model.entities.id(entity))))


@router.post("/degree", **needs("predict", "unknown-name", example={"facts": 9}))
async def sum_of_degrees(request: Request, asked: Asked) -> Degree:
    '''How many facts some entities are in, added up.'''
    return Degree(facts=sum([(await degree(request, entity)).facts for entity in asked.entities]))
"""

Install = Callable[[str], None]


@pytest.fixture
def install(install_package: Callable[[str, str, str], None], monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package with an endpoint of that code."""

    def register(code: str) -> None:
        install_package("capse.endpoints", "degree = capse_degree:router", code)
        fresh: Registry[object] = Registry(
            "endpoint", "capse.endpoints", {name: entry.value for name, entry in endpoints.ENDPOINTS.builtin.items()}
        )
        monkeypatch.setattr(endpoints, "ENDPOINTS", fresh)

    return register


def test_an_endpoint_of_another_package_answers(install, serve, graph_run):
    install(ROUTER)
    client = serve(graph_run)
    facts = client.get("/v1/entities/e00").json()["total"]
    assert client.get("/v1/degree/e00").json() == {"facts": facts}
    assert client.post("/v1/degree", {"entities": ["e00", "e00"]}).json() == {"facts": 2 * facts}


def test_it_is_described_counted_and_limited_like_ours(install, serve, graph_run):
    install(ROUTER)
    client = serve(graph_run)
    described = client.get("/openapi.json").json()["paths"]["/v1/degree/{entity}"]["get"]
    assert (described["x-scope"], described["security"]) == ("predict", [{"key": []}])
    assert {"200", "401", "403", "422", "429", "500"} <= set(described["responses"])
    unknown = client.get("/v1/degree/nobody")
    assert (unknown.status_code, unknown.json()["type"]) == (422, "urn:capse:problem:unknown-name")
    assert client.post("/v1/degree", {"entities": ["e00"] * 4}).json()["detail"].startswith("body.entities")
    too_large = client.request("POST", "/v1/degree", content=b" " * 5_000_000)
    assert too_large.status_code == 415
    json = {"Content-Type": "application/json"}
    assert client.request("POST", "/v1/degree", content=b" " * 5_000_000, headers=json).status_code == 413
    assert client.get("/v1/degree/e00", headers={"Host": "evil.example"}).status_code == 421
    assert 'route="/v1/degree/{entity}",status="422"} 1.0' in client.get("/metrics").text


def test_it_needs_a_key_with_its_scope(install, serve, graph_run, database):
    install(ROUTER)
    with Store.open(database) as store:
        keys = {scope: store.add_key(scope, [scope]) for scope in ("predict", "events")}
    client = serve(graph_run, database=database, require_keys=True)
    answers = [client.get("/v1/degree/e00", headers={"Authorization": f"Bearer {keys[s]}"}) for s in keys]
    assert [answer.status_code for answer in answers] == [200, 403]
    assert client.get("/v1/degree/e00").status_code == 401


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ((", route_class=GuardedRoute", ""), r"has an unguarded route \(/v1/degree/{entity}\): make its router with"),
        (('**needs("predict", "unknown-name", example={"facts": 9})', ""), "says no scope for /v1/degree: give the"),
        (("/degree/{entity}", "/entities/{entity:text}"), "answers to GET /v1/entities/{entity:text}, which is taken"),
        (("BaseModel, Field", "BaseModel, Feld"), r"of capse_degree:router cannot be loaded \(ImportError"),
    ],
)
def test_an_endpoint_that_cannot_be_guarded_keeps_the_service_from_starting(install, serve, graph_run, changed, says):
    install(ROUTER.replace(*changed))
    with pytest.raises(ExtensionError, match=says):
        serve(graph_run)
