"""POST /v1/rerank and /v1/events, GET and DELETE /v1/users: lists follow clicks, and a user can be forgotten."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from capse.search.serving.reranker import Reranker, ShownDocument

NOW = 1_800_000_000


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
    before = rerank(client, documents)
    assert [one["document"] for one in before] == documents
    assert {one["score"] for one in before} == {None}
    assert client.post("/v1/events", click(documents[3])).json() == {"outcomes": ["accepted"]}
    reranker = Reranker.load(search_run)
    state = reranker.new_user()
    reranker.learn(state, documents[3], "s", NOW)
    expected = reranker.rerank("q", documents, state=state, session="s", time=NOW)
    after = rerank(client, documents)
    assert [(one["document"], one["score"], one["position"], one["rank"]) for one in after] == [
        (one.document, one.score, one.position, one.rank) for one in expected
    ]
    assert [one["document"] for one in rerank(client, documents, "grace")] == documents


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
    topics: Any = reranker.run.space.model
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
        click(documents[0], "a/b", dwell=45.0),
        click(documents[1], "a/b", dwell=3.0),
    ]
    client.post("/v1/events", {"events": events})
    known = client.get("/v1/users/a%2Fb").json()
    assert {key: known[key] for key in ("user", "impressions", "clicks", "satisfied", "sessions")} == {
        "user": "a/b", "impressions": 1, "clicks": 2, "satisfied": 1, "sessions": 2,
    }  # fmt: skip
    assert known["recent"] == [{"id": documents[0], "session": "s", "time": NOW}]
    assert known["interests"][0]["share"] >= known["interests"][1]["share"] > 0
    assert client.request("DELETE", "/v1/users/a%2Fb").json() == {"events": 3, "keys": 0}
    assert client.get("/v1/users/a%2Fb").status_code == 404
    assert {one["score"] for one in rerank(client, documents, "a/b")} == {None}
    assert client.request("DELETE", "/v1/users/a%2Fb").json() == {"events": 0, "keys": 0}


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
        ({"time": "yesterday"}, "body.time: time is 'yesterday': give seconds since 1970"),
        ({"time": NOW * 1000}, "body.time: time is 1800000000000, which can only be milliseconds: divide it by 1,000"),
        ({"time": NOW * 10**6}, "which can only be microseconds"),
        ({"time": 10**400}, "nanoseconds or nonsense"),
        ({"time": True}, "body.time: time is True"),
        ({"time": None}, "body.time"),
        ({"query": "q" * 1001}, "body.query: String should have at most 1000 characters"),
        ({"kind": "purchase"}, "body.kind"),
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
