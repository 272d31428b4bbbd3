"""Questions of many requests are scored together, each distinct one once, and nobody's spoils another's."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from capse.graph.dataset import Graph
from capse.graph.link_prediction.completion import Query
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.link_prediction.queries import FREE
from capse.service import batching
from capse.service.batching import Batcher
from capse.service.problems import Problem

ENTITIES = 12


class Model(nn.Module):
    """Reads scores from a table; remembers its calls, and waits to be let go before it answers."""

    device = torch.device("cpu")

    def __init__(self, table):
        super().__init__()
        self.table = torch.as_tensor(table, dtype=torch.float32)
        self.calls = []
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.gate.set()

    def score_tails(self, heads, relations):
        self.entered.set()
        assert self.gate.wait(10)
        self.calls.append(heads.tolist())
        return self.table[heads, relations]


def model_of(table):
    return Model(table)


@pytest.fixture
def predictor():
    graph = Graph.from_triples([(f"e{i:02}", "r", f"e{(i + 1) % ENTITIES:02}") for i in range(ENTITIES)])
    return LinkPredictor(model_of(np.random.default_rng(0).random((ENTITIES, 1, ENTITIES))), graph)


@pytest.fixture
def batcher():
    told = []
    batcher: Any = Batcher(0.0, lambda *call: told.append(call))
    batcher.told = told
    yield batcher
    batcher.stop()


def question(head, top=3, new=False):
    return Query(head, 0, FREE, top, new)


def expected(predictor, asked):
    scores = predictor.model.table[asked.head, 0].numpy().astype(np.float64)
    order = [i for i in np.argsort(-scores) if not (asked.new and i == (asked.head + 1) % ENTITIES)]
    return order[: asked.top]


def test_what_piles_up_while_one_call_runs_goes_into_the_next(batcher, predictor):
    model = predictor.model
    model.gate.clear()
    first = batcher.ask(predictor, [question(0)])
    assert model.entered.wait(5)
    waiting = [batcher.ask(predictor, [question(i % 4, top=1 + i, new=i % 2 == 1)]) for i in range(8)]
    model.gate.set()
    answers = [future.result(5)[0] for future in (first, *waiting)]
    asked = [question(0), *(question(i % 4, top=1 + i, new=i % 2 == 1) for i in range(8))]
    for one, found in zip(asked, answers, strict=True):
        assert found.answers.tolist() == expected(predictor, one)
        assert found.known.tolist() == [i == (one.head + 1) % ENTITIES for i in found.answers]
    assert [sorted(call) for call in model.calls] == [[0], [0, 1, 2, 3]]
    batcher.stop()
    assert [call[:2] for call in batcher.told] == [(1, 1), (8, 8)]


def test_a_question_waits_a_moment_for_others(predictor):
    batcher: Any = Batcher(window=0.5)
    futures = [batcher.ask(predictor, [question(i)]) for i in range(3)]
    for future in futures:
        future.result(5)
    batcher.stop()
    assert [sorted(call) for call in predictor.model.calls] == [[0, 1, 2]]


def test_a_request_of_many_does_not_keep_a_request_of_one_waiting(batcher, predictor, monkeypatch):
    monkeypatch.setattr(batching, "BATCH", 4)
    model = predictor.model
    model.gate.clear()
    batcher.ask(predictor, [question(11)])
    assert model.entered.wait(5)
    many = batcher.ask(predictor, [question(i) for i in range(10)])
    one = batcher.ask(predictor, [question(10)])
    model.gate.set()
    found = many.result(5)
    one.result(5)
    assert [answers.answers.tolist() for answers in found] == [expected(predictor, question(i)) for i in range(10)]
    assert sorted(model.calls[1]) == [0, 1, 2, 10]
    assert [len(call) for call in model.calls] == [1, 4, 4, 3]


def test_questions_of_two_models_are_not_mixed(batcher, predictor):
    other = LinkPredictor(model_of(1 - predictor.model.table.numpy()), predictor.graph)
    futures = [batcher.ask(model, [question(i)]) for i in range(3) for model in (predictor, other)]
    for i, future in enumerate(futures):
        model = (predictor, other)[i % 2]
        assert future.result(5)[0].answers.tolist() == expected(model, question(i // 2))


def test_nobodys_question_spoils_anothers_answer(batcher, predictor):
    model = predictor.model
    model.table[5, 0, 7] = np.nan
    model.gate.clear()
    batcher.ask(predictor, [question(0)])
    assert model.entered.wait(5)
    good, bad = batcher.ask(predictor, [question(1)]), batcher.ask(predictor, [question(2), question(5)])
    model.gate.set()
    assert good.result(5)[0].answers.tolist() == expected(predictor, question(1))
    with pytest.raises(Exception, match="nan"):
        bad.result(5)
    assert batcher.ask(predictor, [question(3)]).result(5)


def test_too_many_waiting_questions_are_refused(batcher, predictor, monkeypatch):
    monkeypatch.setattr(batching, "MAX_WAITING", 3)
    model = predictor.model
    model.gate.clear()
    futures = [batcher.ask(predictor, [question(0)])]
    assert model.entered.wait(5)
    futures += [batcher.ask(predictor, [question(i)]) for i in range(3)]
    with pytest.raises(Problem, match="too many") as refused:
        batcher.ask(predictor, [question(4)])
    assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
    model.gate.set()
    assert all(future.result(5) for future in futures)
    assert batcher.ask(predictor, [question(4)]).result(5)


def test_a_batcher_that_is_stopped_answers_what_waits(predictor):
    batcher: Any = Batcher(window=30)
    futures = [batcher.ask(predictor, [question(i)]) for i in range(3)]
    batcher.stop()
    assert all(future.done() for future in futures)
    with pytest.raises(Problem):
        batcher.ask(predictor, [question(0)])
