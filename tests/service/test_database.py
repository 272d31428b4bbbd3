"""A database that fails: clear errors without a path, and recovery without a restart."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from capse.errors import StoreError
from capse.service.store import checking


@pytest.fixture
def client(serve, graph_run, search_run, database):
    return serve(graph_run, search_run, database=database)


def click(number, document):
    return {
        "id": f"e{number}",
        "kind": "click",
        "user": "ada",
        "session": "s",
        "time": 1_700_000_000,
        "document": document,
    }


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


def ready(client, monkeypatch):
    monkeypatch.setattr(client.service, "_looked", None)  # what was found a second ago
    return client.get("/ready")


def spoil(database, place, size=4096):
    with Path(database).open("r+b") as file:
        file.seek(place)
        file.write(b"\xa5" * size)


def test_readiness_is_the_databases_too(client, database, monkeypatch, simulated):
    documents = simulated.log.documents.ids
    client.post("/v1/events", {"events": [click(n, documents[n % 50]) for n in range(400)]})
    assert ready(client, monkeypatch).status_code == 200
    Path(database).rename(database + ".away")
    answer = ready(client, monkeypatch)
    assert (answer.status_code, answer.json()["detail"]) == (503, "the database does not answer")
    assert database not in answer.text
    Path(database + ".away").rename(database)
    assert ready(client, monkeypatch).status_code == 200


@pytest.mark.parametrize("where", ["at its beginning", "in the middle", "cut off", "no database", "empty"])
def test_a_corrupt_database_is_not_ready(client, database, monkeypatch, simulated, where):
    documents = simulated.log.documents.ids
    client.post("/v1/events", {"events": [click(n, documents[n % 50]) for n in range(900)]})
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    size = Path(database).stat().st_size
    if where == "at its beginning":
        spoil(database, 0)
    elif where == "in the middle":
        spoil(database, size // 2 // 4096 * 4096)
    elif where == "cut off":
        os.truncate(database, size // 3)
    else:
        Path(database).write_bytes(b"nonsense" * 1000 if where == "no database" else b"")
    answer = ready(client, monkeypatch)
    assert (answer.status_code, answer.json()["detail"]) == (503, "the database cannot be used")
    assert client.get("/health").status_code == 200


def test_damage_that_a_short_look_misses_is_remembered(client, database, monkeypatch):
    monkeypatch.setattr("capse.service.store.store.CHECK_SECONDS", -1.0)
    looked = []
    monkeypatch.setattr(client.service.store, "_damaged", True)
    plain = checking._check_pages
    monkeypatch.setattr(checking, "_check_pages", lambda *given: looked.append(given[-1]) or plain(*given))
    assert ready(client, monkeypatch).status_code == 200
    assert ready(client, monkeypatch).status_code == 200
    assert looked == [None, -1.0], "the first looks through all of it, and finds that it was restored"


def test_those_who_ask_at_once_share_one_look(client, monkeypatch):
    looks = []
    monkeypatch.setattr(client.service.store, "check", lambda: looks.append(1))
    answers = client.together(*[("GET", "/ready", {})] * 20)
    assert {answer.status_code for answer in answers} == {200}
    assert len(looks) == 1
