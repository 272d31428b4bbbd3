"""GET /v1/search/samples: lists that /v1/rerank takes as they are."""

from __future__ import annotations


def test_samples_can_be_re_ranked(serve, search_run, database):
    client = serve(search_run, database=database)
    samples = client.get("/v1/search/samples").json()["samples"]
    assert len(samples) == 3
    for sample in samples:
        assert all(document["title"] and document["words"] for document in sample["documents"])
        ids = [document["id"] for document in sample["documents"]]
        answer = client.post("/v1/rerank", {"user": "ada", "query": sample["query"], "documents": ids})
        assert answer.status_code == 200
        ranked = answer.json()["documents"]
        assert sorted(one["document"] for one in ranked) == sorted(one["id"] for one in sample["documents"])


def test_a_service_without_a_search_run_says_so(serve, graph_run, database):
    answer = serve(graph_run, database=database).get("/v1/search/samples")
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:capse:problem:no-such-model")
