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


def test_what_an_answer_hangs_on_is_estimated_when_asked(client, run):
    asked = {"head": "e00", "relation": "knows", "tail": "e03", "removals": True, "asked": "head"}
    found = client.post("/v1/explain", asked).json()["removals"]
    expected = run.explain(head="e00", relation="knows", tail="e03", asked="head", removals=True).to_json()["removals"]
    assert found == expected
    assert found


def test_a_run_with_thresholds_says_what_is_true(client, serve, make_graph_run, tmp_path):
    triple = {"head": "e00", "relation": "knows", "tail": "e03"}
    assert client.post("/v1/score", {"triples": [triple]}).json()["scores"][0]["verdict"] is None
    path = make_graph_run(tmp_path / "run")
    capse.Classifier(
        slope=1.0, intercept=-5.0, slopes=[1.0, 1.0], intercepts=[-5.0, -5.0], threshold=9.0, thresholds=[20.0, 14.0],
        prior=1.0, triples=10, negatives="given triples", seed=0, held_out={},
    ).save(capse.RunFolder(path))  # fmt: skip
    judged = capse.load(path)
    assert isinstance(judged, capse.LinkPredictor)
    (expected,) = judged.classify([("e00", "knows", "e03")])
    verdict = serve(path).post("/v1/score", {"triples": [triple]}).json()["scores"][0]["verdict"]
    assert verdict == {"true": expected.true, "probability": pytest.approx(expected.probability)}
    assert verdict["true"] == (expected.score >= 14)
