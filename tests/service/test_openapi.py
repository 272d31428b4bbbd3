"""The description of the API is whole: every request and response has examples, and they are what they should be."""

from __future__ import annotations

import json

import jsonschema_rs
import pytest

from capse.service.problems import KINDS, MEDIA_TYPE


@pytest.fixture(scope="module")
def described(client):
    return client.get("/openapi.json").json()


def operations(described):
    return [
        (f"{method.upper()} {path}", operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]


def check(described, schema, example):
    jsonschema_rs.validate({**schema, "components": described["components"]}, example)


def examples_of(content):
    return [example["value"] for example in content.get("examples", {}).values()] + (
        [content["example"]] if "example" in content else []
    )


def test_every_endpoint_is_described(described):
    assert {name for name, _ in operations(described)} >= {
        "GET /health",
        "GET /ready",
        "GET /metrics",
        "POST /v1/admin/reload",
        "GET /v1/entities",
        "GET /v1/entities/{entity}",
        "GET /v1/relations",
        "POST /v1/predict",
        "POST /v1/score",
        "POST /v1/explain",
        "POST /v1/rerank",
        "GET /v1/search/samples",
        "POST /v1/events",
        "GET /v1/users/{user}",
        "DELETE /v1/users/{user}",
    }
    assert all(operation["description"] and operation["tags"] for _, operation in operations(described))


def test_every_request_has_examples_that_fit(described):
    for name, operation in operations(described):
        for parameter in operation.get("parameters", []):
            assert parameter["description"], name
            schema = parameter["schema"]
            given = [parameter["example"]] if "example" in parameter else schema.get("examples", [])
            assert given, (name, parameter["name"])
            for example in given:
                check(described, schema, example)
        if "requestBody" in operation:
            content = operation["requestBody"]["content"]["application/json"]
            assert examples_of(content), name
            for example in examples_of(content):
                check(described, content["schema"], example)


def test_every_response_has_examples_that_fit(described):
    for name, operation in operations(described):
        assert "200" in operation["responses"], name
        for status, response in operation["responses"].items():
            for kind, content in response["content"].items():
                assert examples_of(content), (name, status, kind)
                for example in examples_of(content):
                    if "schema" in content:
                        check(described, content["schema"], example)
            if status != "200":
                assert MEDIA_TYPE in response["content"], (name, status)
                for example in examples_of(response["content"][MEDIA_TYPE]):
                    assert example["status"] == int(status)
                    assert example["remedy"]


def test_every_kind_of_problem_is_described_somewhere(described):
    named = {kind for kind in KINDS if f"urn:capse:problem:{kind}" in json.dumps(described)}
    assert set(KINDS) - named == {"method-not-allowed", "headers-too-large", "malformed-request"}  # of no route alone
