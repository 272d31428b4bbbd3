"""Carts, purchases and the like in service: stored once, remembered of the user, counted by every process."""

from __future__ import annotations

from sqlalchemy import update

from capse.search.ingest import ingest
from capse.search.logs.actions import KINDS
from capse.search.logs.search_log import SearchLog
from capse.search.users.user_state import PastAction
from capse.service.store import Store
from capse.service.store.engine import writing
from capse.service.store.schema import users
from capse.service.stored_log import StoredLog

NOW = 1_700_000_000


def event(id, kind="cart", second=9, document="d5", user="ada", **more):
    return {"id": id, "kind": kind, "user": user, "session": "s", "document": document, "time": NOW + second} | more


def remembered(*actions):
    return [PastAction(document, kind, (NOW + second) * 10**6) for kind, document, second in actions]


def test_events_are_remembered_once_and_survive(serve, search_run, database):
    client = serve(search_run, database=database)
    sent = {"events": [event("e1"), event("e2", "purchase", 20), event("e3", "dislike", 30, "d1")]}
    assert client.post("/v1/events", sent).json() == {"outcomes": ["accepted"] * 3}
    assert client.post("/v1/events", sent).json() == {"outcomes": ["repeated"] * 3}
    wanted = remembered(("cart", "d5", 9), ("purchase", "d5", 20), ("dislike", "d1", 30))
    with Store.open(database) as store:
        assert store.state("ada").actions == wanted
        assert [change.kind for change in store.changes()] == ["cart", "purchase", "dislike"]
        click = event("c1", "click", 40)
        assert client.post("/v1/events", click).status_code == 200
        assert client.post("/v1/events", event("e4", "like", 50)).status_code == 200
        with writing(store._engine) as connection:
            connection.execute(update(users).values(state=None))
        state = store.state("ada")
        assert (state.actions, len(state.clicks)) == ([*wanted, *remembered(("like", "d5", 50))], 1)
        assert client.request("DELETE", "/v1/users/ada").status_code == 200
        assert store.state("ada") is None


def test_an_unknown_kind_is_refused_in_one_line(serve, search_run, database):
    client = serve(search_run, database=database)
    answer = client.post("/v1/events", event("e1", "wish"))
    assert answer.status_code == 422
    assert "'cart', 'purchase'" in answer.text
    assert client.post("/v1/events", event("e1", dwell=3.0)).status_code == 422


def test_stored_events_are_bound_to_the_list_that_they_came_from(serve, search_run, database, tmp_path):
    client = serve(search_run, database=database, keep_lists=1)
    asked = {"query": "words", "documents": ["d3", "d5", "d1"], "session": "s", "user": "ada", "time": NOW}
    assert client.post("/v1/rerank", asked).status_code == 200
    sent = [
        event("e1"),
        event("e2", "purchase", 20),
        event("e3", "like", 30, "d3", session="other"),
        event("e4", "view", -9),
    ]
    assert client.post("/v1/events", {"events": sent}).status_code == 200
    client.service.recorder.write_now()
    report = ingest([], tmp_path / "log", format=StoredLog(client.service.store))
    log = SearchLog.load(tmp_path / "log")
    found = [(KINDS[kind], row) for kind, row in zip(log.actions.kind, log.actions.row, strict=True)]
    assert found == [("view", -1), ("cart", 1), ("purchase", 1), ("like", -1)]
    assert report.quarantined == {}
