"""A database that fails: clear errors without a path, and recovery without a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from capse.errors import StoreError


@pytest.fixture
def client(serve, graph_run, search_run, database):
    return serve(graph_run, search_run, database=database)


def click(number, document):
    return {"id": f"e{number}", "kind": "click", "user": "ada", "session": "s", "time": 1, "document": document}


def test_a_database_that_is_gone_and_comes_back(client, database, simulated):
    documents = list(simulated.log.documents.ids[:5])
    assert client.post("/v1/events", click(1, documents[0])).status_code == 200
    client.service.store.close()
    Path(database).rename(database + ".away")
    for method, path, body in [
        ("POST", "/v1/events", click(2, documents[1])),
        ("POST", "/v1/rerank", {"user": "ada", "documents": documents}),
        ("GET", "/v1/users/ada", None),
        ("DELETE", "/v1/users/ada", None),
    ]:
        response = client.request(method, path, json=body)
        assert (response.status_code, response.headers["retry-after"]) == (503, "5"), response.text
        assert response.json()["type"] == "urn:capse:problem:unavailable"
        assert database not in response.text
    assert client.post("/v1/rerank", {"documents": documents}).status_code == 200  # nobody's profile is needed
    assert client.post("/v1/predict", {"relation": "knows", "head": "e00"}).status_code == 200
    Path(database + ".away").rename(database)
    assert client.post("/v1/events", click(2, documents[1])).json() == {"outcomes": ["accepted"]}
    assert client.post("/v1/events", click(1, documents[0])).json() == {"outcomes": ["repeated"]}
    assert client.get("/v1/users/ada").json()["clicks"] == 2


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("full", "the database has no space left"),
        ("busy", "the database is busy"),
        ("gone", "the database does not answer"),
        ("damaged", "the database cannot be used"),
    ],
)
def test_every_failure_is_named_without_a_path(client, monkeypatch, kind, says):
    def fail(events):
        raise StoreError(kind, "/secret/place/capse.db is in trouble", "look at /secret/place")

    monkeypatch.setattr(client.service.store, "add", fail)
    response = client.post("/v1/events", click(1, "d"))
    assert (response.status_code, response.json()["detail"]) == (503, says)
    assert "secret" not in response.text
