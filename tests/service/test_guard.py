"""Authorisation: keys, scopes, users, rates, hosts and sites."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from capse.errors import SettingsError
from capse.service import guard
from capse.service.app import create_app
from capse.service.endpoints import ENDPOINTS
from capse.service.rates import Buckets
from capse.service.settings import ServiceSettings
from capse.service.store import SCOPES, Store

CLICK = {"id": "e1", "kind": "click", "user": "ada", "time": 1_700_000_000, "document": "d"}
ROUTES = {  # every guarded route and the scope that it needs
    ("GET", "/v1/entities"): ("predict", None),
    ("GET", "/v1/entities/e00"): ("predict", None),
    ("GET", "/v1/relations"): ("predict", None),
    ("GET", "/v1/similar/e00"): ("predict", None),
    ("POST", "/v1/predict"): ("predict", {"relation": "knows", "head": "e00"}),
    ("POST", "/v1/score"): ("predict", {"triples": [{"head": "e00", "relation": "knows", "tail": "e01"}]}),
    ("POST", "/v1/explain"): ("predict", {"head": "e00", "relation": "knows", "tail": "e01"}),
    ("POST", "/v1/rerank"): ("rerank", {"documents": ["d"], "user": "ada"}),
    ("GET", "/v1/search/samples"): ("rerank", None),
    ("POST", "/v1/events"): ("events", CLICK),
    ("POST", "/v1/facts"): ("facts", {"facts": [{"head": "new", "relation": "knows", "tail": "e00"}]}),
    ("GET", "/v1/users"): ("users", None),
    ("GET", "/v1/users/eve"): ("users", None),
    ("DELETE", "/v1/users/eve"): ("users", None),
    ("POST", "/v1/admin/reload"): ("admin", None),
    ("GET", "/metrics"): ("admin", None),
}


def bearer(key):
    return {"headers": {"Authorization": f"Bearer {key}"}}


@pytest.fixture(scope="module")
def keyed(graph_run, search_run, tmp_path_factory, module_serve):
    """A service that wants keys, and keys: one for each scope, one for ada alone, one that is revoked."""
    database = str(tmp_path_factory.mktemp("keys") / "capse.db")
    with Store.open(database) as store:
        keys = {scope: store.add_key(scope, [scope]) for scope in SCOPES}
        keys["ada"] = store.add_key("ada's", ["rerank", "events", "users"], user="ada")
        keys["revoked"] = store.add_key("revoked", SCOPES)
        store.revoke_key("revoked")
    return module_serve(graph_run, search_run, facts=True, database=database, require_keys=True), keys


def test_every_route_of_ours_is_in_the_table(keyed):
    routes: list[Any] = [route for name in ENDPOINTS.builtin for route in ENDPOINTS[name].routes]
    ours = {route.path_format for route in routes}
    every = keyed[0].get("/openapi.json").json()["paths"]
    described = {path: methods for path, methods in every.items() if path in ours}
    guarded = {
        (method.upper(), path)
        for path, methods in described.items()
        for method, operation in methods.items()
        if "security" in operation
    }
    named = {(method, path.replace("e00", "{entity}").replace("users/eve", "users/{user}")) for method, path in ROUTES}
    assert guarded == named
    open_to_all = {path for path, methods in described.items() if "security" not in next(iter(methods.values()))}
    assert open_to_all == {"/health", "/ready"}


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
def test_a_route_is_open_to_keys_with_its_scope_alone(keyed, route):
    (client, keys), (needed, body) = keyed, ROUTES[route]
    bare = client.request(*route, json=body)
    assert (bare.status_code, bare.headers["www-authenticate"]) == (401, "Bearer")
    for wrong in ("nonsense", keys["revoked"], "x" * 5000, "é"):
        response = client.request(*route, json=body, headers={"Authorization": f"Bearer {wrong}".encode()})
        assert response.status_code == 401
        assert response.json()["type"] == "urn:capse:problem:no-key"
    for scope in SCOPES:
        response = client.request(*route, json=body, **bearer(keys[scope]))
        if scope == needed:
            assert response.status_code in (200, 404), response.text
        else:
            assert response.status_code == 403
            assert repr(needed) in response.json()["detail"]


def test_a_users_key_reaches_this_user_alone(keyed):
    client, keys = keyed
    one = {"documents": ["d"]}
    mine = bearer(keys["ada"])
    for user, status in (("ada", {200}), ("grace", {403})):
        assert client.post("/v1/rerank", one | {"user": user}, **mine).status_code in status
        assert client.post("/v1/rerank", {"requests": [one, one | {"user": user}]}, **mine).status_code in status
        sent = CLICK | {"id": f"of-{user}", "user": user}
        assert client.post("/v1/events", sent, **mine).status_code in status
        assert client.post("/v1/events", {"events": [CLICK, sent]}, **mine).status_code in status
        assert client.get(f"/v1/users/{user}", **mine).status_code in status
    client.post("/v1/events", CLICK | {"id": "of-grace", "user": "grace"}, **bearer(keys["events"]))
    assert client.request("DELETE", "/v1/users/grace", **mine).status_code == 403
    assert client.get("/v1/users/grace", **bearer(keys["users"])).json()["clicks"] == 1


def test_nothing_of_a_body_is_read_before_the_key(keyed):
    client, keys = keyed
    read = []

    async def body():
        read.append(True)
        yield b"{}"

    headers = {"Content-Type": "application/json"}
    response = client.request("POST", "/v1/predict", content=body(), headers=headers)
    assert (response.status_code, read) == (401, [])
    response = client.request("POST", "/v1/predict", content=b"{", headers=headers | bearer(keys["events"])["headers"])
    assert response.status_code == 403


def test_a_revoked_key_is_refused_within_a_second(serve, graph_run, database, monkeypatch):
    """And a valid one is not looked up again before that."""
    now = 100.0
    monkeypatch.setattr(guard, "time", SimpleNamespace(monotonic=lambda: now))
    with Store.open(database) as store:
        key = store.add_key("short", ["predict"])
        store.add_key("other", ["predict"])
        client = serve(graph_run, database=database, require_keys=True)
        assert client.get("/v1/relations", **bearer(key)).status_code == 200
        store.revoke_key("short")
        now = 100.95
        assert client.get("/v1/relations", **bearer(key)).status_code == 200
        now = 101.05
        assert client.get("/v1/relations", **bearer(key)).status_code == 401


def test_a_key_may_ask_so_often(serve, graph_run, database):
    with Store.open(database) as store:
        keys = [store.add_key(str(name), ["predict"], per_minute=3) for name in range(2)]
    client = serve(graph_run, database=database, require_keys=True)
    assert [client.get("/v1/relations", **bearer(keys[0])).status_code for _ in range(5)] == [200] * 3 + [429] * 2
    refused = client.get("/v1/relations", **bearer(keys[0]))
    assert 1 <= int(refused.headers["retry-after"]) <= 20
    assert refused.json()["detail"] == "this key may make 3 requests a minute"
    assert client.get("/v1/relations", **bearer(keys[1])).status_code == 200


def test_a_keys_rate_is_counted_over_all_workers(serve, graph_run, database, tmp_path):
    """A keep-alive client that one of three workers answers has all of it; and two together have no more."""
    with Store.open(database) as store:
        key = store.add_key("shared", ["predict"], per_minute=6)
    workers = [
        serve(graph_run, database=database, require_keys=True, workers=3, rates=tmp_path / "rates") for _ in range(3)
    ]
    answers = [workers[0].get("/v1/relations", **bearer(key)) for _ in range(4)]
    answers += [workers[number % 3].get("/v1/relations", **bearer(key)) for number in range(4)]
    assert [answer.status_code for answer in answers] == [200] * 6 + [429] * 2


def test_a_bucket_is_refilled_in_a_minute():
    buckets = Buckets()
    assert [buckets.take(1, 6, now=5) for _ in range(6)] == [0] * 6
    assert buckets.take(1, 6, now=5) == pytest.approx(10)
    assert buckets.take(2, 6, now=5) == 0  # of another key
    assert buckets.take(1, 6, now=15) == 0
    assert buckets.take(1, 6, now=15) > 0
    assert [buckets.take(1, 6, now=1000) for _ in range(7)][-2:] == [0, pytest.approx(10)]  # never fuller than full
    buckets.close()


def test_other_workers_need_not_wait_for_one_that_has_counted(tmp_path):
    buckets = Buckets(tmp_path / "rates")
    buckets.take(1, 6, now=5)
    code = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    assert subprocess.run([sys.executable, "-c", code, tmp_path / "rates"], check=False).returncode == 0
    buckets.close()


def test_a_large_request_counts_as_several():
    buckets = Buckets()
    assert buckets.take(1, 60, now=5, cost=20) == 0
    assert buckets.take(1, 60, now=5, cost=50) == pytest.approx(10)
    assert buckets.take(1, 60, now=65, cost=600) == 0, "larger than a full bucket: let through, and owed"
    assert buckets.take(1, 60, now=65) == pytest.approx(541)
    buckets.close()


def test_keys_that_are_not_required_still_hold(serve, graph_run, search_run, database):
    with Store.open(database) as store:
        key = store.add_key("ada's", ["users"], user="ada")
    client = serve(graph_run, search_run, database=database)
    assert client.get("/v1/relations").status_code == 200
    assert client.get("/v1/users/grace", **bearer(key)).status_code == 403
    assert client.get("/v1/relations", **bearer("nonsense")).status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8000", "10.0.0.1", "", "user@evil.example"])
def test_without_keys_only_names_of_this_machine_are_answered(client, host):
    response = client.get("/v1/relations", headers={"Host": host})
    assert response.status_code == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000", "127.1.2.3"])
def test_names_of_this_machine(client, host):
    assert client.get("/v1/relations", headers={"Host": host}).status_code == 200


def test_pages_of_other_sites_can_ask_nothing(client):
    ask = {"relation": "knows", "head": "e00"}
    assert client.post("/v1/predict", ask, headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.post("/v1/predict", ask, headers={"Origin": "null"}).status_code == 403
    assert client.post("/v1/predict", ask, headers={"Origin": "http://127.0.0.1:8000"}).status_code == 200
    preflight = client.request("OPTIONS", "/v1/predict", headers={"Origin": "http://evil.example"})
    assert preflight.status_code == 405
    assert not any(name.startswith("access-control") for name in preflight.headers)


def test_where_keys_are_needed_a_proxy_may_change_the_host(keyed):
    """A browser makes nobody send a key; and what a page of another site is told, it may not read."""
    client, keys = keyed
    asked = {"Origin": "https://shop.example:8443", "Host": "shop.example"} | bearer(keys["predict"])["headers"]
    answer = client.post("/v1/predict", {"relation": "knows", "head": "e00"}, headers=asked)
    assert answer.status_code == 200
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_other_machines_are_served_with_keys_alone(graph_run, database):
    settings = ServiceSettings(runs=(str(graph_run),), host="0.0.0.0", database=database)
    assert settings.needs_keys
    with pytest.raises(SettingsError, match="holds no API key: make one with 'capse key add'"):
        create_app(settings)


@pytest.mark.parametrize(("size", "more"), [(1, 0), (10, 0), (11, 1), (30, 2)])
def test_a_large_request_counts_once_more_for_each_further_part(size: int, more: int) -> None:
    charged: list[tuple[str, float]] = []
    service: Any = SimpleNamespace(guard=SimpleNamespace(charge=lambda key, requests: charged.append((key, requests))))
    request: Any = SimpleNamespace(
        app=SimpleNamespace(state=SimpleNamespace(service=service)), state=SimpleNamespace(key="a key")
    )
    guard.charge(request, size, of=10)
    assert charged == [("a key", more)]
