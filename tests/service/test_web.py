"""The page's files come from memory, with headers that let them do little."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from capse.service import web


def test_the_page_is_served_with_a_strict_policy(client):
    response = client.get("/")
    assert (response.status_code, response.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-cache"
    again = client.get("/", headers={"If-None-Match": response.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/main.js").headers["content-type"].startswith("text/javascript")
    assert client.request("HEAD", "/").status_code == 200
    assert client.post("/").status_code == 405


def test_only_the_files_that_were_there_are_served(serve, graph_run, tmp_path):
    (tmp_path / "index.html").write_text("first")
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "a.css").write_text("a")
    (tmp_path / ".hidden").write_text("secret")
    (tmp_path / "code.py").write_text("secret")
    app = FastAPI()
    web.install(app, tmp_path)
    routes: list[Any] = app.routes
    assert {route.path for route in routes if not route.include_in_schema} >= {"/", "/index.html", "/deeper/a.css"}
    assert not {"/.hidden", "/code.py"} & {route.path for route in routes}


def test_answers_of_the_api_are_kept_by_nobody(client):
    for path in ("/health", "/v1/relations", "/nothing"):
        response = client.get(path)
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-content-type-options"] == "nosniff"
