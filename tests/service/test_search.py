"""POST /v1/rerank and /v1/events, GET and DELETE /v1/users: lists follow clicks, and a user can be forgotten."""

from __future__ import annotations

import itertools
import threading
import time as clock
from typing import Any
from urllib.parse import quote

import pytest

from capse.search.serving.list_scorers import ShownDocument
from capse.search.serving.reranker import Reranker
from capse.service.store import Store

NOW = 1_700_000_000


@pytest.fixture
def client(serve, search_run, database):
    return serve(search_run, database=database)


@pytest.fixture
def documents(simulated):
    return list(simulated.log.documents.ids[:10])


numbers = itertools.count()


def click(document, user="ada", **more):
    return {
        "id": f"e{next(numbers)}",
        "kind": "click",
        "user": user,
        "session": "s",
        "time": NOW,
        "document": document,
    } | more


def rerank(client, documents, user="ada", **more):
    response = client.post(
        "/v1/rerank", {"user": user, "session": "s", "query": "q", "documents": documents, "time": NOW} | more
    )
    assert response.status_code == 200, response.text
    return response.json()["documents"]


def test_a_click_changes_the_next_list_as_the_reranker_has_it(client, search_run, documents):
    reranker = Reranker.load(search_run)
    before = rerank(client, documents)
    without = [one.document for one in reranker.rerank("q", documents)]
    assert [one["document"] for one in before] == without != documents
    assert client.post("/v1/events", click(documents[3])).json() == {"outcomes": ["accepted"]}
    state = reranker.new_user()
    reranker.learn(state, documents[3], "s", NOW)
    expected = reranker.rerank("q", documents, state=state, session="s", time=NOW)
    after = rerank(client, documents)
    assert [(one["document"], one["score"], one["position"], one["rank"]) for one in after] == [
        (one.document, one.score, one.position, one.rank) for one in expected
    ]
    assert after != before
    assert [one["document"] for one in rerank(client, documents, "grace")] == without


def test_many_lists_and_reasons(client, documents):
    client.post("/v1/events", {"events": [click(documents[0]), click(documents[1], "grace")]})
    one = {"user": "ada", "documents": documents, "explain": True, "time": NOW}
    response = client.post("/v1/rerank", {"requests": [one, one | {"user": "grace", "explain": False}]}).json()
    assert len(response["results"]) == 2
    assert response["model"] == client.service.models.search.version
    near = [past["id"] for item in response["results"][0] for past in item["reasons"]["past"]]
    assert set(near) == {documents[0]}
    assert all(item["reasons"] is None for item in response["results"][1])


def test_profiles_survive_a_restart_and_a_run_with_other_vectors(
    serve, search_run, make_search_run, database, documents, tmp_path
):
    first = serve(search_run, database=database)
    first.post("/v1/events", {"events": [click(document) for document in documents[:5]]})
    ranked = rerank(first, documents)
    again = serve(search_run, database=database)
    assert rerank(again, documents) == ranked
    other = make_search_run(tmp_path / "other", seed=7)
    swapped = serve(other, database=database)
    reranker = Reranker.load(other)
    state = reranker.new_user()
    for document in documents[:5]:
        reranker.learn(state, document, "s", NOW)
    expected = reranker.rerank("q", documents, state=state, session="s", time=NOW)
    assert [one["score"] for one in rerank(swapped, documents)] == [one.score for one in expected]
    swapped.post("/v1/events", click(documents[6]))
    reranker.learn(state, documents[6], "s", NOW)
    expected = reranker.rerank("q", documents, state=state, session="s", time=NOW)
    assert [one["score"] for one in rerank(swapped, documents)] == [one.score for one in expected]


def test_a_document_that_the_run_does_not_know_is_ranked_and_learned_by_its_text(client, search_run, documents):
    reranker = Reranker.load(search_run)
    topics: Any = reranker.space.model
    words = " ".join(topics.words[:20])
    client.post("/v1/events", click("new", text=words))
    state = reranker.new_user()
    reranker.learn(state, ShownDocument("new", text=words), "s", NOW)
    shown = [ShownDocument("other", text=words), *documents[:3]]
    expected = reranker.rerank("q", shown, state=state, session="s", time=NOW)
    ranked = rerank(client, [{"id": "other", "text": words}, *documents[:3]])
    assert [(one["document"], one["score"]) for one in ranked] == [(one.document, one.score) for one in expected]
    (only,) = rerank(client, [{"text": words}])
    assert only["score"] is not None
    assert len(only["document"]) == 16


def unknown(search_run):
    """A document that the run does not know, and its text."""
    topics: Any = Reranker.load(search_run).space.model
    return {"text": " ".join(topics.words[:20])}


@pytest.mark.parametrize("again", [False, True], ids=["in one process", "in another, or after a restart"])
def test_a_click_on_a_document_known_by_its_text_outlives_the_bounce_of_another(
    serve, search_run, database, documents, again
):
    first = serve(search_run, database=database)
    text = unknown(search_run)
    before = rerank(first, [*documents, {"id": "new", **text}])
    first.post("/v1/events", {"events": [click("new", **text), click(documents[1], id="left", time=NOW + 1)]})
    first.post("/v1/events", click(documents[0], time=NOW + 2))
    client = serve(search_run, database=database) if again else first
    left = {"id": "w", "kind": "dwell", "user": "ada", "time": NOW + 3, "click": "left", "dwell": 1.0}
    assert client.post("/v1/events", left).json() == {"outcomes": ["accepted"]}
    reranker = Reranker.load(search_run)
    state = reranker.new_user()
    reranker.learn(state, ShownDocument("new", **text), "s", NOW)
    reranker.learn(state, documents[0], "s", NOW + 2)
    expected = reranker.rerank("q", documents, state=state, session="s", time=NOW)
    assert [one["score"] for one in rerank(client, documents)] == [one.score for one in expected]
    assert [one["id"] for one in client.get("/v1/users/ada").json()["recent"]] == ["new", documents[0]]
    assert before != rerank(client, [*documents, {"id": "new", **text}])


def test_nobodys_text_says_what_a_document_is_to_others(client, search_run, documents):
    client.post("/v1/events", click(documents[0]))
    text = unknown(search_run)
    plain = rerank(client, [*documents, "new"])
    assert {one["document"]: one["score"] for one in plain}["new"] is None
    rerank(client, [{"id": "new", **text}], "eve")
    client.post("/v1/events", click("new", "eve", **text))
    assert rerank(client, [*documents, "new"]) == plain


def test_what_is_stored_of_a_known_document_is_its_id(client, documents):
    client.post("/v1/events", click(documents[0], title="A title", text="A text"))
    (event,) = client.service.store.events("ada")
    assert (event.title, event.text) == ("", None)
    assert client.service.store.state("ada").texts == {}


def test_ids_of_events_are_a_users_own(client, documents):
    assert client.post("/v1/events", click(documents[0], "eve", id="1")).json() == {"outcomes": ["accepted"]}
    assert client.post("/v1/events", click(documents[1], "ada", id="1")).json() == {"outcomes": ["accepted"]}


def test_an_event_sent_again_changes_nothing_and_another_of_its_id_is_a_conflict(client, documents):
    event = click(documents[0], id="same")
    assert client.post("/v1/events", {"events": [event, event]}).json() == {"outcomes": ["accepted", "repeated"]}
    assert client.post("/v1/events", event).json() == {"outcomes": ["repeated"]}
    response = client.post("/v1/events", event | {"document": documents[1]})
    assert response.status_code == 409
    assert response.json()["remedy"] == "give every event an id of its own"
    assert client.get("/v1/users/ada").json()["clicks"] == 1


def test_what_is_known_of_a_user_is_shown_and_forgotten(client, documents):
    events = [
        {"id": "i", "kind": "impression", "user": "a/b", "time": NOW, "query": "q", "documents": documents},
        click(documents[1], "a/b", dwell=3.0),
        click(documents[0], "a/b", dwell=45.0, time=NOW + 9),
    ]
    client.post("/v1/events", {"events": events})
    known = client.get("/v1/users/a%2Fb").json()
    assert {key: known[key] for key in ("user", "impressions", "clicks", "satisfied", "sessions")} == {
        "user": "a/b", "impressions": 1, "clicks": 2, "satisfied": 1, "sessions": 2,
    }  # fmt: skip
    assert known["recent"] == [{"id": documents[0], "session": "s", "time": NOW + 9}]
    assert known["interests"][0]["share"] >= known["interests"][1]["share"] > 0
    assert client.request("DELETE", "/v1/users/a%2Fb").json() == {"events": 3, "keys": 0, "runs": True}
    assert client.get("/v1/users/a%2Fb").status_code == 404
    assert rerank(client, documents, "a/b") == rerank(client, documents, "nobody")
    assert client.request("DELETE", "/v1/users/a%2Fb").json() == {"events": 0, "keys": 0, "runs": True}


@pytest.mark.parametrize("user", ["a\nb", "\n", "a\r\nb/c", "\u2028", "...", "a?b#c%d", " "])
def test_whoever_can_be_stored_can_be_read_and_forgotten(client, documents, user):
    client.post("/v1/events", click(documents[0], user))
    path = f"/v1/users/{quote(user, safe='')}"
    assert client.get(path).json()["user"] == user
    assert client.request("DELETE", path).json() == {"events": 1, "keys": 0, "runs": True}
    assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"documents": []}, "body.documents"),
        ({"documents": ["d"] * 201}, "body.documents"),
        ({"documents": [{}]}, "body.documents.0"),
        ({"documents": ["d"], "extra": 1}, "body.extra"),
        ({"documents": ["x" * 201]}, "body.documents.0"),
        ({"requests": []}, "body.requests"),
        ({"documents": ["d"], "time": -1}, "body.time"),
        ({"documents": ["d"], "time": True}, "body.time"),
        ({"documents": ["d"], "time": "9999-12-31"}, "body.time: time in the future"),
    ],
)
def test_lists_that_make_no_sense(client, body, where):
    response = client.post("/v1/rerank", body)
    assert response.status_code == 422
    assert response.json()["detail"].startswith(where), response.text


def test_events_that_make_no_sense(client, documents):
    for change, says in [
        ({"document": None}, "an event of kind click needs 'document'"),
        ({"click": "e0"}, "has no 'click'"),
        ({"user": "a\0b"}, "body.user: text with a zero in it"),
        ({"user": ".."}, "body.user: no address can name a user '..'"),
        ({"time": "yesterday"}, "body.time: time is 'yesterday': give seconds since 1970"),
        ({"time": NOW * 1000}, "body.time: time is 1700000000000, which can only be milliseconds: divide it by 1,000"),
        ({"time": NOW * 10**6}, "which can only be microseconds"),
        ({"time": 10**400}, "nanoseconds or nonsense"),
        ({"time": True}, "body.time: time is True"),
        ({"time": "9999-12-31T23:59:59Z"}, "body.time: time in the future: see that the clock is right, and the unit"),
        ({"time": clock.time() + 2 * 86_400}, "body.time: time in the future"),
        ({"time": NOW / 10**6}, "body.time: time before 1990"),
        ({"time": None}, "body.time"),
        ({"query": "q" * 1001}, "body.query: String should have at most 1000 characters"),
        ({"kind": "wish"}, "body.kind"),
    ]:
        response = client.post("/v1/events", click(documents[0]) | change)
        assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")
        assert says in response.json()["detail"]


def test_endpoints_of_an_absent_model_say_so(serve, graph_run, search_run, database):
    graph, search = serve(graph_run), serve(search_run, database=database)
    for client, method, path, body in [
        (graph, "POST", "/v1/rerank", {"documents": ["d"]}),
        (graph, "POST", "/v1/events", click("d")),
        (graph, "GET", "/v1/users/ada", None),
        (graph, "DELETE", "/v1/users/ada", None),
        (search, "POST", "/v1/predict", {"relation": "r", "head": "h"}),
        (search, "POST", "/v1/score", {"triples": [{"head": "h", "relation": "r", "tail": "t"}]}),
        (search, "GET", "/v1/entities", None),
        (search, "GET", "/v1/relations", None),
    ]:
        response = client.request(method, path, json=body)
        assert response.status_code == 404
        assert response.json()["type"] == "urn:capse:problem:no-such-model"
    both = serve(graph_run, search_run, database=database)
    assert set(both.get("/ready").json()["versions"]) == {"graph", "search"}


def test_limits_and_rates_count_documents_not_requests(serve, search_run, database, documents):
    with Store.open(database) as store:
        key = {"Authorization": f"Bearer {store.add_key('shop', ['rerank', 'events'], per_minute=10)}"}
    client = serve(search_run, database=database, require_keys=True)
    small, large = {"documents": documents}, {"documents": documents * 10, "explain": True}  # 300 documents' work: 6
    assert client.post("/v1/rerank", large, headers=key).status_code == 200
    assert client.post("/v1/rerank", large, headers=key).status_code == 429
    assert [client.post("/v1/rerank", small, headers=key).status_code for _ in range(4)] == [200, 200, 200, 429]


@pytest.mark.parametrize(
    ("lists", "status"),
    [
        ([{"documents": ["d"] * 200}] * 10, 200),
        ([{"documents": ["d"] * 200}] * 11, 422),
        ([{"documents": ["d"] * 200, "explain": True}] * 3, 200),
        ([{"documents": ["d"] * 200, "explain": True}] * 4, 422),
        ([{"documents": [{"id": "d", "text": "x" * 10_000}] * 200}] * 2, 422),
    ],
)
def test_the_work_of_a_request_is_bounded(client, lists, status):
    response = client.post("/v1/rerank", {"requests": lists})
    assert response.status_code == status
    if status == 422:
        assert response.json()["detail"].startswith("more than 2,000 documents")


def test_large_requests_wait_for_each_other_and_small_ones_for_none(client, documents, monkeypatch):
    """Every large one waits until the small ones have been answered, which so cannot have waited for it."""
    under_way, most, answered, small = 0, 0, threading.Semaphore(0), 4
    plain = Reranker.rerank

    def counted(reranker, query, shown, **about):
        nonlocal under_way, most
        if len(shown) <= 50:
            answered.release()
            return plain(reranker, query, shown, **about)
        under_way += 1
        most = max(most, under_way)
        for _ in range(small):
            assert answered.acquire(timeout=10)
        answered.release(small)
        under_way -= 1
        return plain(reranker, query, shown, **about)

    monkeypatch.setattr(Reranker, "rerank", counted)
    many = [("POST", "/v1/rerank", {"json": {"documents": documents * 6}})] * 3
    few = [("POST", "/v1/rerank", {"json": {"documents": documents}})] * small
    assert {answer.status_code for answer in client.together(*many, *few)} == {200}
    assert most == 1


def test_users_of_whom_something_is_remembered(serve, search_run, database, documents):
    with Store.open(database) as store:
        every, own = (
            store.add_key(name, ["users", "events"], user=user) for name, user in (("all", None), ("a", "ada"))
        )
    client = serve(search_run, database=database)
    assert client.get("/v1/users").json() == {"users": []}
    shown = {"id": "i", "kind": "impression", "user": "eve", "time": NOW, "query": "q", "documents": documents}
    client.post("/v1/events", {"events": [click(documents[0], user) for user in ("ada", "grace", "alan")] + [shown]})
    assert client.get("/v1/users").json() == {"users": ["alan", "grace", "ada"]}
    assert client.get("/v1/users?limit=1").json() == {"users": ["alan"]}
    assert client.get("/v1/users", headers={"Authorization": f"Bearer {every}"}).json()["users"][0] == "alan"
    assert client.get("/v1/users", headers={"Authorization": f"Bearer {own}"}).json() == {"users": ["ada"]}
