"""POST /v1/facts: what is sent is stored and answered with, by every worker and after a restart; nothing else moves."""

from __future__ import annotations

import signal
import time

import httpx
import pytest

from capse.errors import SettingsError
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.service.limits import MAX_NEW_FACTS
from capse.service.settings import ServiceSettings
from capse.service.state import Service
from capse.service.store import Store

ATLANTIS = [{"head": "Atlantis", "relation": "knows", "tail": f"e{i:02}"} for i in (0, 3, 6)]
OLD = {"triples": [{"head": "e01", "relation": "knows", "tail": "Person 3"}]}


def of(problem):
    return problem.status_code, problem.json()["type"].rpartition(":")[2], problem.json()["detail"]


def scores_of(client, *triples):
    sent = [{"head": h, "relation": r, "tail": t} for h, r, t in triples]
    return [one["score"] for one in client.post("/v1/score", {"triples": sent}).json()["scores"]]


@pytest.fixture
def growing(serve, graph_run, database):
    return serve(graph_run, facts=True, database=database)


def test_a_new_entity_answers_and_is_asked_about_at_once(growing):
    before = growing.post("/v1/score", OLD).json()
    answer = growing.post("/v1/facts", {"facts": ATLANTIS}).json()
    version = before["model"]
    assert answer == {"outcomes": ["accepted"] * 3, "entities": ["Atlantis"], "model": f"{version}+3"}
    asked = growing.post("/v1/predict", {"relation": "knows", "tail": "e00", "top": 31}).json()
    found = {one["entity"]: one for one in asked["predictions"]}
    assert found["Atlantis"]["known"]
    assert asked["model"] == f"{version}+3"
    assert growing.post("/v1/predict", {"relation": "knows", "head": "Atlantis"}).status_code == 200
    assert growing.get("/v1/entities", params={"q": "atl"}).json()["entities"][0]["entity"] == "Atlantis"
    assert len(growing.get("/v1/entities/Atlantis").json()["facts"]) == 3
    assert growing.get("/v1/similar/Atlantis").status_code == 200
    assert growing.post("/v1/score", OLD).json()["scores"] == before["scores"]
    assert growing.get("/ready").json()["versions"] == {"graph": f"{version}+3"}


def test_sent_again_a_fact_changes_nothing(growing):
    first = growing.post("/v1/facts", {"facts": ATLANTIS}).json()
    again = growing.post("/v1/facts", {"facts": [ATLANTIS[1], ATLANTIS[1]]}).json()
    assert again == {"outcomes": ["repeated"] * 2, "entities": [], "model": first["model"]}


def test_a_fact_between_known_entities_is_known_and_moves_nothing(growing):
    before = growing.post("/v1/score", OLD).json()["scores"]
    assert not before[0]["known"]
    sent = {"facts": [{"head": "Person 1", "relation": "knows", "tail": "Person 3"}]}  # by names
    assert growing.post("/v1/facts", sent).json()["entities"] == []
    assert growing.post("/v1/score", OLD).json()["scores"] == [before[0] | {"known": True}]


def test_facts_may_join_new_entities_and_come_one_by_one(serve, graph_run, tmp_path):
    facts = [*ATLANTIS, {"head": "Mu", "relation": "knows", "tail": "Atlantis"}]
    facts.append({"head": "Lemuria", "relation": "hates/loves", "tail": "e05"})
    together, apart = (serve(graph_run, facts=True, database=str(tmp_path / name)) for name in ("a", "b"))
    together.post("/v1/facts", {"facts": facts})
    for fact in facts:
        apart.post("/v1/facts", {"facts": [fact]})
    asked = [(h, "knows", t) for h in ("Atlantis", "Mu", "Lemuria") for t in ("e00", "e07", "Mu")]
    assert scores_of(together, *asked) == scores_of(apart, *asked)  # to the bit


def test_a_restart_a_reload_and_another_run_have_the_facts(serve, make_graph_run, tmp_path, database):
    run = make_graph_run(tmp_path / "run")
    client = serve(run, facts=True, database=database)
    client.post("/v1/facts", {"facts": ATLANTIS})
    asked = ("Atlantis", "knows", "e05"), ("e05", "knows", "Atlantis")
    before = scores_of(client, *asked)
    assert scores_of(serve(run, facts=True, database=database), *asked) == before
    make_graph_run(run, scale=2.0)
    assert client.request("POST", "/v1/admin/reload").status_code == 200
    assert scores_of(client, *asked) == scores_of(serve(run, facts=True, database=database), *asked) != before


def test_what_a_run_knows_by_now_or_cannot_take_is_left_out(serve, graph_run, tmp_path, database):
    with Store.open(database) as store:
        store.add_facts([("Atlantis", "rules", "e01"), ("Änne Öz", "knows", "e01"), ("Mu", "knows", "e01")])
    grown = LinkPredictor.load(graph_run).updated([("Mu", "knows", "e01")])
    grown.save(tmp_path / "run")
    client = serve(tmp_path / "run", facts=True, database=database)
    assert client.get("/v1/entities").json()["total"] == 31
    assert scores_of(client, ("Mu", "knows", "e02")) == grown.score([("Mu", "knows", "e02")])


def test_mistakes_are_problems_and_store_nothing(growing, database):
    def sent(*facts, **more):
        named = [dict(zip(("head", "relation", "tail"), fact, strict=True)) for fact in facts]
        return of(growing.post("/v1/facts", {"facts": named} | more))

    fine = ("Atlantis", "knows", "e01")
    assert sent(fine, ("e01", "nose", "e02"))[:2] == (422, "unknown-name")
    assert sent(fine, ("Person 0", "knows", "e00")) == (409, "known-fact", "(e00, knows, e00) is a known fact already")
    assert sent(fine, ("Änne Öz", "knows", "e00"))[:2] == (422, "invalid")
    for label in ("", "a\tb", "a\nb", "a\0b", "a" * 1001):
        assert sent(fine, (label, "knows", "e00"))[:2] == (422, "invalid"), repr(label)
    assert sent(*[(f"new {i}", "knows", "e00") for i in range(MAX_NEW_FACTS + 1)])[:2] == (422, "invalid")
    assert sent()[:2] == (422, "invalid")
    assert sent(fine, among=["e01"])[:2] == (422, "invalid")
    with Store.open(database) as store:
        assert store.facts() == []
    assert growing.get("/v1/entities").json()["total"] == 30


def test_known_facts_may_be_left_out(growing):
    sent = {"facts": [*ATLANTIS, {"head": "e00", "relation": "knows", "tail": "e00"}], "skip_known": True}
    assert growing.post("/v1/facts", sent).json()["outcomes"] == ["accepted"] * 3 + ["known"]


def test_a_service_that_was_not_told_to_takes_none(client, serve, graph_run, search_run, database):
    refused = client.post("/v1/facts", {"facts": ATLANTIS})
    assert of(refused)[:2] == (403, "forbidden")
    assert "--facts" in refused.json()["remedy"]
    with Store.open(database) as store:
        store.add_facts([("Atlantis", "knows", "e01")])
    assert serve(graph_run, search_run, database=database).get("/v1/entities").json()["total"] == 30
    with pytest.raises(SettingsError, match="no graph run is served"):
        Service(ServiceSettings((str(search_run),), facts=True, database=database))


class TestProcesses:
    @pytest.mark.slow
    def test_every_worker_follows_and_a_kill_of_all_loses_nothing(self, server, graph_run, database):
        service = server(graph_run, "--facts", "--workers", 2, "--db", database)
        acknowledged = stream(service, 5)
        deadline = time.monotonic() + 30
        while len({knows(service) for _ in range(20)}) > 1 or not knows(service):
            assert time.monotonic() < deadline
        service.stop(signal.SIGKILL)
        again = server(graph_run, "--facts", "--db", database)
        assert all(known(again, fact) for fact in acknowledged)

    @pytest.mark.soak
    def test_a_hundred_kills_in_a_stream_of_facts_lose_none(self, server, graph_run, database):
        acknowledged = []
        for kill in range(100):
            service = server(graph_run, "--facts", "--db", database)
            acknowledged += stream(service, 1 + kill % 4, first=10 * kill)
            service.stop(signal.SIGKILL)
        last = server(graph_run, "--facts", "--db", database)
        assert len(acknowledged) >= 200
        assert all(known(last, fact) for fact in acknowledged)


def stream(service, count, first=0):
    """Facts that were acknowledged; the next one is under way when this returns."""
    acknowledged = []
    for number in range(first, first + count):
        fact = {"head": f"new {number}", "relation": "knows", "tail": "e01"}
        assert httpx.post(f"{service.address}/v1/facts", json={"facts": [fact]}, timeout=60).status_code == 200
        acknowledged.append(fact)
    with service.connect() as connection:
        connection.sendall(b"POST /v1/facts HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n")
        body = b'{"facts": [{"head": "lost", "relation": "knows", "tail": "e02"}]}'
        connection.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    return acknowledged


def known(service, fact):
    answer = httpx.post(f"{service.address}/v1/score", json={"triples": [fact]}, timeout=60)
    return answer.status_code == 200 and answer.json()["scores"][0]["known"]


def knows(service):
    return known(service, {"head": "new 4", "relation": "knows", "tail": "e01"})
