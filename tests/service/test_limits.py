"""What is refused before it can do harm, and how."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capse.service.limits import MAX_ANSWERS, MAX_BODY, MAX_QUERIES, MAX_TRIPLES

JSON = {"Content-Type": "application/json"}
ASK = {"relation": "knows", "head": "e00"}


def problem(response, status, kind):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    content = response.json()
    assert content["type"] == f"urn:capse:problem:{kind}"
    assert content["status"] == status
    assert content["title"]
    assert content["detail"]
    assert content["remedy"]
    return content


def test_a_body_that_says_it_is_too_large_is_not_read(client):
    async def never():
        raise AssertionError("read")
        yield b""

    headers = JSON | {"Content-Length": str(MAX_BODY + 1)}
    response = client.request("POST", "/v1/predict", content=never(), headers=headers)
    problem(response, 413, "too-large")
    assert response.headers["connection"] == "close"


def test_a_body_that_grows_too_large_is_read_no_further(client):
    sent = 0

    async def much():
        nonlocal sent
        while True:
            sent += 2**16
            yield b" " * 2**16

    problem(client.request("POST", "/v1/predict", content=much(), headers=JSON), 413, "too-large")
    assert sent <= MAX_BODY + 2**17


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"\xff\xfe",
        b'{"relation": NaN}',
        b'"\\ud800"',
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"{}{}",
    ],
    ids=lambda body: repr(body[:12]),
)
def test_what_is_not_json_is_refused(client, body):
    content = problem(client.request("POST", "/v1/predict", content=body, headers=JSON), 400, "malformed-json")
    assert len(content["detail"]) < 400


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_what_is_not_said_to_be_json_is_refused(client, kind):
    headers = {"Content-Type": kind} if kind else {}
    response = client.request("POST", "/v1/predict", content=json.dumps(ASK).encode(), headers=headers)
    problem(response, 415, "not-json")


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/v1/predict", [], "body"),
        ("/v1/predict", None, "body"),
        ("/v1/predict", {"relation": "knows"}, "body: give two of head, relation and tail"),
        ("/v1/predict", ASK | {"tail": "e01"}, "body: give two of head, relation and tail"),
        ("/v1/predict", ASK | {"top": 0}, "body.top"),
        ("/v1/predict", ASK | {"top": 1001}, "body.top"),
        ("/v1/predict", ASK | {"top": 1e999}, "body"),
        ("/v1/predict", ASK | {"head": "x" * 1001}, "body.head"),
        ("/v1/predict", ASK | {"head": ["e00"]}, "body.head"),
        ("/v1/predict", ASK | {"hed": "e00"}, "body.hed"),
        ("/v1/predict", {"queries": []}, "body.queries"),
        ("/v1/predict", {"queries": [ASK] * (MAX_QUERIES + 1)}, "body.queries"),
        ("/v1/predict", {"queries": [ASK, {}]}, "body.queries.1: give two of head, relation and tail"),
        ("/v1/predict", {"queries": [ASK | {"top": 1000}] * (MAX_ANSWERS // 1000 + 1)}, "more than"),
        ("/v1/score", {"triples": []}, "body.triples"),
        ("/v1/score", {"triples": [{"head": "a", "relation": "b", "tail": "c"}] * (MAX_TRIPLES + 1)}, "body.triples"),
        ("/v1/explain", {"head": "e00", "relation": "knows", "tail": "e01", "most": 21}, "body.most"),
    ],
)
def test_requests_that_make_no_sense_say_where(client, path, body, where):
    content = client.post(path, content=json.dumps(body).replace("Infinity", "1e999").encode(), headers=JSON)
    if content.status_code == 400:  # 1e999 is no number
        assert "1e999" in json.dumps(body).replace("Infinity", "1e999")
        return
    assert problem(content, 422, "invalid")["detail"].startswith(where)


def test_errors_are_few_and_say_nothing_of_what_was_sent(client):
    secret = "a secret that nobody needs to be told"
    bad = {"queries": [{"relation": {secret: secret}, "head": 1}] * MAX_QUERIES}
    response = client.post("/v1/predict", bad)
    assert len(problem(response, 422, "invalid")["errors"]) == 20
    assert secret not in response.text


@pytest.mark.parametrize(
    ("body", "detail", "remedy"),
    [
        ({"relation": "knws", "head": "e00"}, "unknown relation 'knws'", "did you mean 'knows'?"),
        ({"relation": "knows", "head": "Persn 12"}, "unknown entity 'Persn 12'", "did you mean 'Person 12'"),
        ({"relation": "knows", "head": "zzzz"}, "unknown entity 'zzzz'", "look it up with /v1/entities?q="),
    ],
)
def test_unknown_names_come_with_the_nearest(client, body, detail, remedy):
    content = problem(client.post("/v1/predict", body), 422, "unknown-name")
    assert content["detail"] == detail
    assert content["remedy"].startswith(remedy)


def test_a_name_of_several_entities_is_no_answer(client):
    content = problem(client.post("/v1/predict", {"relation": "knows", "head": "Änne Öz"}), 422, "invalid")
    assert content["detail"] == "2 labels have the name 'Änne Öz'"
    assert content["remedy"] == "give one of them: 'e28', 'e29'"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/v1", 404),
        ("GET", "/v1/predict", 405),
        ("PUT", "/v1/predict", 405),
        ("POST", "/health", 405),
        ("GET", "/docs", 404),
        ("GET", "/v1/entities?limit=101", 422),
        ("GET", "/v1/entities?q=" + "x" * 1001, 422),
        ("GET", "/v1/entities/nobody", 422),
    ],
)
def test_every_error_is_a_problem(client, method, path, status):
    response = client.request(method, path)
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
    assert response.json()["remedy"]


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["head", "relation", "x"]), inner),
    max_leaves=12,
)
fields = ("relation", "head", "tail", "top", "new", "queries", "triples", "asked", "most", "documents", "user")
bodies = st.one_of(
    st.binary(max_size=200),
    st.dictionaries(st.sampled_from(fields), json_values, max_size=5).map(lambda body: json.dumps(body).encode()),
)


@settings(max_examples=150, deadline=None)
@given(path=st.sampled_from(["/v1/predict", "/v1/score", "/v1/explain", "/v1/rerank", "/v1/events"]), body=bodies)
def test_no_body_makes_it_fail(client, path, body):
    response = client.request("POST", path, content=body, headers=JSON)
    assert response.status_code in (200, 400, 404, 422), response.text
