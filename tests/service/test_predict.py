"""POST /v1/predict: the answers of the Python interface, one question or many, batched."""

from __future__ import annotations

import pytest

import capse

QUESTIONS = [
    {"relation": "knows", "head": "e00"},
    {"relation": "knows", "tail": "Person 7", "top": 3},
    {"relation": "hates/loves", "head": "e29", "top": 100},
    {"relation": "knows", "head": "e00", "new": True, "top": 5},
    {"relation": "knows", "head": "e00"},
    {"head": "e00", "tail": "Person 7"},
    {"head": "e00", "tail": "e01", "top": 1, "new": True},
]


@pytest.fixture(scope="module")
def run(graph_run):
    return capse.load(graph_run)


def expected(run, question):
    of_relation = "relation" not in question
    keys = (
        ("relation", "name", "score", "known") if of_relation else ("entity", "name", "score", "probability", "known")
    )
    return [{key: getattr(answer, key) for key in keys} for answer in run.predict(**question)]


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_a_question_gets_the_answers_of_the_python_interface(client, run, question):
    response = client.post("/v1/predict", question)
    assert response.status_code == 200
    assert response.json() == {"predictions": expected(run, question), "model": client.service.models.graph.version}


def test_many_questions_get_their_answers_in_order(client, run):
    response = client.post("/v1/predict", {"queries": QUESTIONS})
    assert response.json()["results"] == [expected(run, question) for question in QUESTIONS]


def test_a_run_that_is_not_calibrated_has_null_probabilities(serve, make_graph_run, tmp_path):
    client = serve(make_graph_run(tmp_path / "run", calibrated=False))
    answers = client.post("/v1/predict", {"relation": "knows", "head": "e00"}).json()["predictions"]
    assert [answer["probability"] for answer in answers] == [None] * 10


class TestAmong:
    ASK = {"relation": "knows", "head": "e00", "top": 30}  # noqa: RUF012

    def answers(self, client, **restriction):
        response = client.post("/v1/predict", self.ASK | restriction)
        return [answer["entity"] for answer in response.json()["predictions"]]

    def test_a_list_a_type_and_a_range(self, client):
        assert self.answers(client, among=["e05", "Person 7"]) == ["e05", "e07"]
        assert self.answers(client, of_type={"relation": "hates/loves", "type": "e01"}) == ["e00"]
        graph = client.service.models.graph.predictor.graph
        seen = {graph.entities.labels[t] for _, r, t in graph.train if graph.relations.labels[r] == "knows"}
        assert set(self.answers(client, seen=True)) == seen

    def test_mistakes_are_problems(self, client):
        for restriction, kind in (
            ({"among": ["Atlantis"]}, "unknown-name"),
            ({"among": ["e05"], "seen": True}, "invalid"),
            ({"of_type": {"relation": "knows", "type": "e29"}}, "invalid"),
            ({"among": []}, "invalid"),
        ):
            body = client.post("/v1/predict", self.ASK | restriction).json()
            assert body["type"] == f"urn:capse:problem:{kind}", restriction
        body = client.post("/v1/predict", {"head": "e00", "tail": "e01", "seen": True}).json()
        assert body["status"] == 422
