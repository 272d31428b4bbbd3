"""POST /v1/score and /v1/explain: what the Python interface says."""

from __future__ import annotations

import pytest

import capse


@pytest.fixture(scope="module")
def run(graph_run):
    return capse.load(graph_run)


def test_triples_get_the_scores_of_the_python_interface(client, run):
    triples = [("e00", "knows", "e03"), ("Person 7", "hates/loves", "e01"), ("e29", "knows", "e29")]
    body = {"triples": [dict(zip(("head", "relation", "tail"), triple, strict=True)) for triple in triples]}
    found = client.post("/v1/score", body).json()
    assert [one["score"] for one in found["scores"]] == run.score(triples)
    assert [one["known"] for one in found["scores"]] == [True, False, False]
    assert all(0 < one["probability"] < 1 for one in found["scores"])
    assert found["model"] == client.service.models.graph.version


def test_many_triples_are_scored_in_parts(run, monkeypatch):
    triples = [(f"e{i:02}", "knows", f"e{(i * 7) % 30:02}") for i in range(30)]
    whole = run.score(triples)
    monkeypatch.setattr("capse.kernels.workspace.CPU", 7 * run.model.scorer.floats_per_triple)
    assert run.score(triples) == whole
    assert run.score([]) == []


def test_a_triple_is_explained(client, run):
    why = client.post("/v1/explain", {"head": "Person 0", "relation": "knows", "tail": "e03", "most": 2}).json()
    expected = run.explain(head="e00", relation="knows", tail="e03", most=2).to_json()
    assert why == expected | {"model": client.service.models.graph.version}
    assert why["probability"] is not None
