"""Health, readiness, metrics, logs, and a new run that takes an old one's place."""

from __future__ import annotations

import json
import logging
import re
import shutil
import threading

import numpy as np
import pytest

from capse.errors import RunError, SettingsError
from capse.service import observe
from capse.service.app import create_app
from capse.service.loaded_models import fingerprint
from capse.service.settings import ServiceSettings

ASK = {"relation": "knows", "head": "e00", "top": 1}


@pytest.fixture
def run(graph_run, tmp_path):
    """A copy to spoil."""
    return shutil.copytree(graph_run, tmp_path / "run")


def score(client):
    return client.post("/v1/predict", ASK).json()["predictions"][0]["score"]


def test_health_and_readiness(client, graph_run):
    assert client.get("/health").json() == {"status": "ok"}
    expected = {"status": "ready", "versions": {"graph": fingerprint(graph_run)}, "reload_failed": None}
    assert client.get("/ready").json() == expected


@pytest.mark.parametrize("path", ["/health", "/ready", "/v1/relations?q=k", "/v1/entities/e00", "/", "/nothing"])
def test_head_is_answered_like_get_without_a_body(client, path):
    head, get = client.request("HEAD", path), client.get(path)
    assert (head.status_code, head.content) == (get.status_code, b"")
    for name in ("content-type", "content-length"):
        assert head.headers[name] == get.headers[name]
    assert client.request("HEAD", "/v1/predict").status_code == 405


def test_a_new_run_takes_the_old_ones_place(serve, run, make_graph_run):
    client = serve(run)
    before = client.get("/ready").json()["versions"]
    assert score(client) == 16
    make_graph_run(run, scale=2.0)
    assert score(client) == 16
    response = client.post("/v1/admin/reload")
    assert response.status_code == 200
    assert response.json()["versions"] != before
    assert client.get("/ready").json()["versions"] == response.json()["versions"]
    assert score(client) == 32


def cut(file):
    file.write_bytes(file.read_bytes()[:-7])


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda run: cut(run / "model.safetensors"), "RUN/model.safetensors is damaged"),
        (lambda run: cut(run / "vocabulary" / "entities.parquet"), "RUN/vocabulary/entities.parquet is damaged"),
        (lambda run: (run / "calibration.json").write_text("{"), "RUN/calibration.json is damaged"),
        (lambda run: (run / "model.safetensors").unlink(), "the run in RUN is not finished"),
        (shutil.rmtree, "there is no run in RUN"),
    ],
    ids=["weights", "vocabulary", "calibration", "no weights", "nothing"],
)
def test_a_damaged_run_leaves_the_old_one_in_service(serve, run, graph_run, spoil, says):
    client = serve(run)
    versions = client.get("/ready").json()["versions"]
    spoil(run)
    response = client.post("/v1/admin/reload")
    assert response.status_code == 409
    assert says in response.json()["detail"]
    assert str(run.parent) not in response.text
    ready = client.get("/ready")
    assert ready.status_code == 200
    assert ready.json()["versions"] == versions
    assert says in ready.json()["reload_failed"]
    assert score(client) == 16
    shutil.copytree(graph_run, run, dirs_exist_ok=True)
    assert client.post("/v1/admin/reload").json()["reload_failed"] is None
    assert client.get("/ready").json() == {"status": "ready", "versions": versions, "reload_failed": None}


def test_requests_in_flight_keep_the_model_they_began_with(serve, run, make_graph_run):
    client = serve(run)
    version = client.get("/ready").json()["versions"]["graph"]
    model = client.service.models.graph.predictor.model
    entered, gate = threading.Event(), threading.Event()
    plain = model.score_tails

    def held(*arguments):
        entered.set()
        assert gate.wait(10)
        return plain(*arguments)

    model.score_tails = held

    async def swap_under_way():
        import asyncio

        asking = asyncio.ensure_future(client._http.post("/v1/predict", json=ASK))
        await asyncio.to_thread(entered.wait, 5)
        make_graph_run(run, scale=2.0)
        assert await client.service.reload()
        gate.set()
        return await asking, await client._http.post("/v1/predict", json=ASK)

    old, new = client._runner.run(swap_under_way())
    assert (old.json()["predictions"][0]["score"], old.json()["model"]) == (16, version)
    assert new.json()["predictions"][0]["score"] == 32
    assert new.json()["model"] != version


def test_runs_that_cannot_be_served(graph_run, tmp_path):
    with pytest.raises(RunError, match="there is no run in"):
        create_app(ServiceSettings(runs=(str(tmp_path / "nowhere"),)))
    with pytest.raises(SettingsError, match="is a second graph run"):
        create_app(ServiceSettings(runs=(str(graph_run), str(graph_run))))


def test_nothing_in_a_run_is_unpickled(serve, run, monkeypatch):
    import pickle

    class Bomb:
        def __reduce__(self):
            return (open, (str(run / "exploded"), "w"))

    client = serve(run)
    for name in ("model.safetensors", "calibration.json", "recipe.yaml"):
        kept = (run / name).read_bytes()
        (run / name).write_bytes(pickle.dumps(Bomb()))
        assert client.post("/v1/admin/reload").status_code == 409
        (run / name).write_bytes(kept)
    (run / "recipe.yaml").write_text("!!python/object/apply:os.mkdir [exploded]\n")
    assert client.post("/v1/admin/reload").status_code == 409
    assert not (run / "exploded").exists()


def test_metrics_count_requests_and_batches(serve, graph_run):
    client = serve(graph_run)
    for _ in range(3):
        client.post("/v1/predict", ASK)
    client.post("/v1/predict", {"queries": [ASK, ASK | {"head": "e01"}]})
    client.get("/v1/users/somebody-secret")
    client.get("/somebody-secret")
    client.service.close()
    text = client.service.metrics.text().decode()
    assert 'capse_requests_total{method="POST",route="/v1/predict",status="200"} 4.0' in text
    assert 'capse_request_seconds_count{route="/v1/predict"} 4.0' in text
    assert "capse_batch_questions_count 4.0" in text
    assert "capse_batch_questions_sum 5.0" in text
    assert f'capse_model_info{{kind="graph",version="{client.service.models.graph.version}"}} 1.0' in text
    assert "secret" not in text
    assert client.get("/metrics").headers["content-type"].startswith("text/plain")


@pytest.fixture
def logged(monkeypatch):
    lines = []

    class Lines(logging.Handler):
        def emit(self, record):
            lines.append(observe.JsonLines().format(record))

    logger = logging.getLogger("capse.service")
    handler = Lines()
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel("DEBUG")
    yield lines
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_logs_are_json_without_personal_data(serve, graph_run, search_run, database, logged):
    client = serve(graph_run, search_run, database=database)
    secret = "Rumpelstiltskin"
    client.post("/v1/predict", {"relation": secret, "head": secret})
    client.post("/v1/rerank", {"user": secret, "query": secret, "documents": [secret]})
    client.post("/v1/events", {"id": "e", "kind": "click", "user": secret, "time": 1_700_000_000, "document": secret})
    client.get(f"/v1/users/{secret}")
    client.get(f"/v1/entities?q={secret}")
    client.get(f"/v1/entities/{secret}")
    client.get(f"/{secret}")
    client.get("/v1/relations", headers={"Authorization": f"Bearer {secret}"})
    entries = [json.loads(line) for line in logged]
    assert len(entries) == 8
    assert all(entry["event"] == "request" for entry in entries)
    assert {"time", "level", "event", "request", "method", "route", "status", "ms"} <= set(entries[0])
    assert [entry["route"] for entry in entries[:3]] == ["/v1/predict", "/v1/rerank", "/v1/events"]
    assert secret not in "".join(logged)


def test_what_nobody_foresaw_is_a_problem_without_a_traceback(serve, graph_run, logged, monkeypatch):
    client = serve(graph_run)

    def fail(*_):
        raise ValueError("a secret path /etc/passwd")

    monkeypatch.setattr(client.service.models.graph.relations, "find", fail)
    response = client.get("/v1/relations")
    content = response.json()
    assert (response.status_code, content["type"]) == (500, "urn:capse:problem:internal")
    assert content["request"] == response.headers["x-request-id"]
    assert "secret" not in response.text
    (entry,) = [json.loads(line) for line in logged if json.loads(line).get("status") == 500]
    assert (entry["error"], entry["request"]) == ("ValueError", content["request"])
    assert re.match(r"fail:\d+", entry["at"][-1])
    assert "secret" not in "".join(logged)


def test_a_model_whose_scores_are_no_numbers_is_unavailable(serve, graph_run):
    client = serve(graph_run)
    model = client.service.models.graph.predictor.model
    model.entities.data[3] = np.nan
    response = client.post("/v1/predict", ASK)
    assert (response.status_code, response.json()["type"]) == (503, "urn:capse:problem:unavailable")
