"""GET /v1/similar: what the Python interface says."""

from __future__ import annotations

import capse


def test_neighbours_are_those_of_the_python_interface(client, graph_run):
    run = capse.load(graph_run)
    assert isinstance(run, capse.LinkPredictor)
    found = client.get("/v1/similar/Person 3", params={"top": 4}).json()
    expected = run.similar("e03", 4)
    assert found["neighbours"] == [
        {"entity": near.entity, "name": near.name, "similarity": near.similarity} for near in expected
    ]
    assert client.get("/v1/similar/nobody").json()["type"] == "urn:capse:problem:unknown-name"
    assert client.get("/v1/similar/e03", params={"top": 0}).status_code == 422
