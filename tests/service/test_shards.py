"""Several services behind one address: the answers of one process, and a clear word where one of them is gone."""

from __future__ import annotations

import socket
import threading
from contextlib import closing

import pytest
import torch
import uvicorn

from capse import ComplEx
from capse.errors import SettingsError
from capse.graph.dataset import Graph
from capse.graph.link_prediction import predictor as loading
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.models import build_model, candidates
from capse.service.app import create_app
from capse.service.settings import ServiceSettings, shard_of

ENTITIES = 200
QUESTIONS = [
    {"relation": "r0", "head": "e000", "top": 50},
    {"relation": "r1", "tail": "e007", "top": 1000},
    {"relation": "r0", "head": "e000", "new": True, "top": 3},
    {"relation": "r2", "head": "e150", "among": ["e199", "e001", "e070"]},
    {"relation": "r2", "head": "e150", "seen": True},
    {"head": "e000", "tail": "e001", "top": 2},
]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(candidates, "ROWS_OF_BLOCK", 24)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """ComplEx with many equal vectors, which lie in the blocks of several shards."""
    triples = [(f"e{i:03}", f"r{i % 3}", f"e{(i * 7 + 1) % ENTITIES:03}") for i in range(ENTITIES)]
    graph = Graph.from_triples(triples, name="ring")
    model = build_model(ComplEx(dim=5), ENTITIES, 3)
    with torch.no_grad():
        model.entities[::9] = model.entities[4]
    path = tmp_path_factory.mktemp("shards") / "run"
    LinkPredictor(model, graph).save(path)
    return path


@pytest.fixture
def listen(run):
    """Starts services on ports of their own; gives their addresses."""
    running = []

    def start(**settings):
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        app = create_app(ServiceSettings((str(run),), **settings))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        running.append((server, thread, listening))
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    yield start
    for server, thread, listening in running:
        server.should_exit = True
        thread.join()
        listening.close()


@pytest.fixture
def free_address():
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"  # nobody listens there


@pytest.mark.parametrize("count", [1, 2, 3])
def test_shards_answer_as_one_process(serve, run, listen, count):
    one = serve(run)
    front = serve(run, shards=tuple(listen(shard=(number, count)) for number in range(count)))
    assert (
        front.post("/v1/predict", {"queries": QUESTIONS}).json()
        == one.post("/v1/predict", {"queries": QUESTIONS}).json()
    )
    for question in QUESTIONS:
        found = front.post("/v1/predict", question)
        assert found.status_code == 200
        assert found.json() == one.post("/v1/predict", question).json()


def test_a_shard_alone_answers_for_its_entities(serve, run):
    answers = [
        serve(run, shard=(number, 2)).post("/v1/predict", QUESTIONS[1]).json()["predictions"] for number in (0, 1)
    ]
    labels = [{answer["entity"] for answer in part} for part in answers]
    assert labels[0].isdisjoint(labels[1])
    assert max(labels[0]) < min(labels[1])
    assert len(labels[0] | labels[1]) == ENTITIES


def test_a_shard_that_is_gone_is_named(serve, run, listen, free_address):
    front = serve(run, shards=(listen(shard=(0, 2)), free_address))
    response = front.post("/v1/predict", QUESTIONS[0])
    assert response.status_code == 503
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"] == "shard 2/2 does not answer"
    assert free_address not in response.text
    score = {"triples": [{"head": "e000", "relation": "r0", "tail": "e001"}]}
    assert front.post("/v1/score", score).status_code == 200  # needs a few rows alone


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ({"shard": (0, 2)}, "shard 2/2 is served as shard 1/2"),
        ({}, "shard 2/2 is served as shard none"),
        ({"shard": (1, 2), "require_keys": True}, "shard 2/2 answered with status 401"),
    ],
)
def test_a_service_that_is_not_the_shard_is_refused(serve, run, listen, tmp_path, second, says):
    if "require_keys" in second:
        second = second | {"database": _with_a_key(tmp_path / "keys.db")}
    front = serve(run, shards=(listen(shard=(0, 2)), listen(**second)))
    response = front.post("/v1/predict", QUESTIONS[0])
    assert response.status_code == 503
    assert response.json()["detail"] == says


def test_a_shard_of_another_model_is_refused(serve, run, listen, graph_run):
    front = serve(graph_run, shards=(listen(shard=(0, 1)),))
    response = front.post("/v1/predict", {"queries": [{"relation": "knows", "head": "e00"}]})
    assert response.status_code == 503
    assert "shard 1/1" in response.json()["detail"]


def test_an_unknown_name_is_said_at_the_front(serve, run, free_address):
    front = serve(run, shards=(free_address,))
    assert front.post("/v1/predict", {"relation": "r9", "head": "e000"}).status_code == 422


@pytest.mark.parametrize(
    "settings",
    [
        {"shard": (0, 2), "shards": ("http://127.0.0.1:1",)},
        {"shard": (0, 2), "facts": True},
        {"shards": ("ftp://127.0.0.1",)},
        {"shards": ("127.0.0.1:8000",)},
        {"shards": ("http://[::1",)},
        {"shards": ("http://127.0.0.1:80001",)},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(SettingsError):
        ServiceSettings(("run",), **settings)


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "a/b", "-1/2"])
def test_a_shard_is_one_of_some(text):
    with pytest.raises(SettingsError, match="which of how many"):
        shard_of(text)


def test_a_mapped_table_answers_as_one_in_memory(run, monkeypatch):
    in_memory = LinkPredictor.load(run)
    monkeypatch.setattr(loading, "LEAST_MAPPED", 0)
    mapped = LinkPredictor.load(run)
    found, expected = (one.predict(relation="r1", tail="e007", top=1000) for one in (mapped, in_memory))
    assert found == expected
    assert mapped.similar("e004") == in_memory.similar("e004")
    assert mapped.evaluate("train").metrics == in_memory.evaluate("train").metrics
    for name, tensor in in_memory.model.state_dict().items():
        assert torch.equal(mapped.model.state_dict()[name], tensor)


def _with_a_key(path):
    from capse.service.store import Store

    store = Store.open(str(path))
    store.add_key("anybody", ["predict"])
    store.close()
    return str(path)
