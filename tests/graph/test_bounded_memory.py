"""Evaluation and prediction stream: they never hold all scores, nor a vector for each query and candidate."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from capse.graph.dataset import Graph
from capse.graph.link_prediction import completion
from capse.graph.link_prediction.completion import Query, complete
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.link_prediction.queries import FREE
from capse.graph.link_prediction.ranking import BYTES_PER_SCORE, rank_split
from capse.kernels import workspace
from capse.models import MODELS, build_model, model_settings

ENTITIES, QUERIES, ROWS, DIM = 10_000, 60, 12, 32
WORKSPACE = ROWS * ENTITIES
OPTIONS = {
    "capse": {"filters": 6, "capsule_dim": 3},
    "convkb": {"filters": 6},
    "conve": {"height": 4, "filters": 2},
    "stranse": {"dim": 24},
    "transr": {"dim": 24},
}


@pytest.fixture(scope="module")
def graph():
    names = [f"e{i:05}" for i in range(ENTITIES)]
    return Graph.from_triples([(names[i], f"r{i % 2}", names[i - 1]) for i in range(ENTITIES)])


@pytest.fixture(autouse=True)
def little_workspace(monkeypatch):
    """For directions that are derived: as much as the scores take, so that a model that ignores it is noticed."""
    monkeypatch.setattr(workspace, "CPU", WORKSPACE)


@pytest.fixture(autouse=True, scope="module")
def in_one_thread(one_thread: None) -> None:
    """Small work for a second thread to wake up for."""


def model_and_bounds(name):
    """A model, the floats that may be held, and those that would be by one of the ways to go wrong."""
    settings = model_settings({"name": name, "dim": DIM, **OPTIONS.get(name, {})})
    model = build_model(settings, ENTITIES, 2, 0).eval()
    scores = ROWS * ENTITIES * BYTES_PER_SCORE // 4
    candidates = 3 * ENTITIES * model.scorer.entity_width  # projected, and a copy of that while it is made
    relations = 3 * ROWS * model.scorer.relation_width
    derived = 2 * WORKSPACE  # `floats_per_triple` is a rough figure
    return model, scores + candidates + relations + derived, ENTITIES * min(QUERIES * 3, ROWS * settings.dim)


@pytest.mark.parametrize("name", MODELS)
def test_evaluation(graph, live_floats, name):
    model, allowed, careless = model_and_bounds(name)
    triples = graph.train[:QUERIES]
    rank_split(model, triples[:1], graph.known)  # what is kept for later is no part of this
    with live_floats(model) as live:
        ranks = rank_split(model, triples, graph.known, memory=ROWS * ENTITIES * BYTES_PER_SCORE)
    assert len(ranks[0].greater) == QUERIES
    assert 0 < live.peak <= allowed
    assert ENTITIES * ROWS <= live.peak < careless


@pytest.mark.parametrize("name", MODELS)
def test_the_best_answers(graph, live_floats, monkeypatch, name):
    model, allowed, careless = model_and_bounds(name)
    predictor = LinkPredictor(model, graph)
    queries = [Query(int(h), int(r), FREE, top=5) for h, r, _ in graph.train[:QUERIES]]
    complete(predictor, queries[:1])
    monkeypatch.setattr(completion, "MOST_CPU_MEMORY", ROWS * ENTITIES * BYTES_PER_SCORE)
    with live_floats(model) as live:
        answers = complete(predictor, queries)
    assert all(len(answer.answers) == 5 and (np.diff(answer.scores) <= 0).all() for answer in answers)
    assert ENTITIES * ROWS <= live.peak <= allowed
    assert live.peak < careless


def test_the_measure_sees_what_it_should(live_floats):
    """A vector for each query and candidate would be noticed."""
    model, allowed, _ = model_and_bounds("transe")
    with live_floats(model) as live, torch.no_grad():
        (model.entities[:ROWS, None] - model.entities).abs().sum(-1)
    assert live.peak > allowed
