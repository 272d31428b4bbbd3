"""Lists that a service keeps to be learned from: only where it is told to, and never of somebody who was forgotten."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sqlalchemy import select

from capse.errors import SettingsError
from capse.search.ingest import ingest
from capse.search.logs.search_log import SearchLog
from capse.service.settings import ServiceSettings
from capse.service.store.schema import lists, texts
from capse.service.stored_log import StoredLog

NOW = 1_700_000_000


def ask(client, user="ada", time=NOW, **more):
    documents = ["d3", {"id": "d5", "title": "Five", "text": "five words"}, "d1", {"id": "new", "text": "some text"}]
    asked = {"query": "words", "documents": documents, "time": time, "session": "s"} | more
    answer = client.post("/v1/rerank", asked if user is None else asked | {"user": user})
    assert answer.status_code == 200, answer.text
    return answer.json()


def kept(client):
    if client.service.recorder is not None:
        client.service.recorder.write_now()
    with client.service.store.reading() as connection:
        return connection.execute(select(lists)).all(), connection.execute(select(texts)).all()


def test_nothing_is_kept_unless_the_operator_says_so(serve, search_run, database):
    client = serve(search_run, database=database)
    ask(client)
    assert kept(client) == ([], [])


def test_a_list_is_kept_as_it_came_and_as_it_went(serve, search_run, database):
    client = serve(search_run, database=database, keep_lists=1)
    answer = ask(client)
    ((row,), described) = kept(client)
    assert (row.query, row.session, row.time, row.model) == ("words", "s", NOW * 10**6, answer["model"])
    assert row.documents == '["d3", "d5", "d1", "new"]'
    assert row.shown == str([one["position"] for one in answer["documents"]]).replace(" ", "")
    assert described == [], "texts are for those who ask for them, too"


def test_texts_are_kept_where_that_is_said_too_and_nothing_of_nobody(serve, search_run, database):
    client = serve(search_run, database=database, keep_lists=1, keep_texts=1)
    ask(client, user=None)
    assert kept(client) == ([], [])
    ask(client)
    _, described = kept(client)
    assert [(row.document, row.title, row.text) for row in described] == [
        ("d5", "Five", "five words"),
        ("new", "", "some text"),
    ]


def test_traffic_becomes_a_log_without_those_who_were_deleted(serve, search_run, database, tmp_path):
    client = serve(search_run, database=database, keep_lists=1)
    for number, user in enumerate(["ada", "bob", "ada"]):
        ask(client, user, NOW + 100 * number)
        click = {"id": f"c{number}", "kind": "click", "user": user, "session": "s", "document": "d5"}
        assert client.post("/v1/events", click | {"time": NOW + 100 * number + 9}).status_code == 200
    ask(client, "eve")
    assert client.request("DELETE", "/v1/users/eve").status_code == 200, "before her list was written"
    ask(client, "eve")
    kept(client)
    ingest([], tmp_path / "log", format=StoredLog(client.service.store))
    log = SearchLog.load(tmp_path / "log")
    assert [log.users[user] for user in log.user] == ["ada", "bob", "ada"]
    assert log.satisfied.sum() == 3
    (row, *_) = kept(client)[0]
    shown = [json.loads(row.documents)[place - 1] for place in json.loads(row.shown)]
    assert [log.documents.ids[log.document[row]] for row in np.argsort(log.rank[:4])] == shown


def test_a_database_that_is_away_is_waited_for(serve, search_run, database, monkeypatch):
    from capse.errors import StoreError

    client = serve(search_run, database=database, keep_lists=1)
    plain = client.service.store.keep_lists

    def away(_):
        raise StoreError("gone", "the database is away", "start it")

    monkeypatch.setattr(client.service.store, "keep_lists", away)
    ask(client)
    assert kept(client)[0] == []
    monkeypatch.setattr(client.service.store, "keep_lists", plain)
    assert len(kept(client)[0]) == 1
    assert "capse_lists_total" in client.get("/metrics").text


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"keep_lists": -1.0}, r"--keep-lists is -1: give days"),
        ({"keep_lists": float("nan")}, r"--keep-lists is nan: give days"),
        ({"keep_texts": 3.0}, r"--keep-texts is given without --keep-lists"),
    ],
)
def test_settings_that_make_no_sense(given, says):
    with pytest.raises(SettingsError, match=says):
        ServiceSettings(runs=("run",), **given)


def test_a_graph_alone_keeps_no_lists(serve, graph_run, database):
    with pytest.raises(SettingsError, match="no search run is served"):
        serve(graph_run, database=database, keep_lists=1)
