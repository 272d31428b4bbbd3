"""The how-to's second engine: PostgreSQL finds, the service re-ranks and keeps its data in the same server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "behind-a-search-engine.md"


@pytest.fixture
def engine():
    """The functions that the page shows."""
    source = re.search(r"^```python .*postgres_search.py.*?\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]
    namespace: dict[str, Any] = {}
    exec(compile(source, "postgres_search.py", "exec"), namespace)
    return namespace


def test_postgresql_finds_and_the_service_ranks(engine, postgres, serve, search_run, simulated):
    url = postgres.new_database()
    model_words = [" ".join(simulated.log.documents.words_of(number)) for number in range(40)]
    documents = [
        {"id": label, "title": f"jaguar {label}", "text": f"the jaguar {words}"}
        for label, words in zip(simulated.log.documents.ids[:40], model_words, strict=True)
    ]
    with psycopg.connect(url) as connection:
        engine["create"](connection, documents)
        found = engine["find"](connection, "Jaguars", most=20)
        assert len(found) == 20
        assert engine["find"](connection, "nothing-of-the-kind") == []
        assert len(engine["find"](connection, '"quoted ( nonsense')) == 0
        connection.commit()
    client = serve(search_run, database=url)
    asked = {"user": "ada", "session": "s", "query": "jaguars", "documents": found}
    reranked = client.post("/v1/rerank", asked).json()["documents"]
    places = [one["id"] for one in found]
    assert [places.index(one["document"]) + 1 for one in reranked] == [one["position"] for one in reranked]
    before = [one["document"] for one in reranked]
    assert before != places, "a new user gets the model without a user"
    click = {"id": "c", "kind": "click", "user": "ada", "session": "s", "time": 1_700_000_000, "document": before[-1]}
    assert client.post("/v1/events", click).json() == {"outcomes": ["accepted"]}
    after = client.post("/v1/rerank", asked).json()["documents"]
    assert {one["document"] for one in after} == set(before)
    assert all(one["score"] is not None for one in after)
    assert client.request("DELETE", "/v1/users/ada").json() == {"events": 1, "keys": 0, "runs": True}
