"""What speaks for a prediction: planted neighbours, brute force over small graphs, and time on the real ones."""

from __future__ import annotations

import json
import time
from typing import Literal

import numpy as np
import pytest
import torch

from capse import DistMult
from capse.errors import UnknownNameError
from capse.evaluation.ranks import NonFiniteScoreError
from capse.graph.dataset import Graph, load_graph
from capse.graph.link_prediction.calibration import Calibration
from capse.graph.link_prediction.completion import Prediction
from capse.graph.link_prediction.explanation import Fact
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.models import build_model, model_settings
from capse.runs.folder import RunFolder


@pytest.fixture
def predictor():
    """A random graph of 14 entities, 3 relations and loops, with random vectors."""
    rng = np.random.default_rng(0)
    facts = {(f"e{h:02}", f"r{r}", f"e{t:02}") for h, r, t in rng.integers(0, (14, 3, 14), (90, 3))}
    rows = sorted(facts | {("e00", "r0", "e01"), ("e01", "r0", "e00"), ("e05", "r1", "e05")})
    rng.shuffle(rows)
    graph = Graph.from_triples(map(tuple, rows[10:]), map(tuple, rows[:5]), map(tuple, rows[5:10]))
    model = build_model(DistMult(dim=5), len(graph.entities), 3)
    torch.nn.init.normal_(model.entities, generator=torch.Generator().manual_seed(0))
    return LinkPredictor(model, graph)


def labels(graph, triple):
    h, r, t = triple
    return graph.entities.labels[h], graph.relations.labels[r], graph.entities.labels[t]


def given(fact):
    return fact.head, fact.relation, fact.tail


def cosine(a, b):
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def some_triples(graph):
    return [*graph.train[::9].tolist(), *graph.valid.tolist(), *graph.test.tolist(), [0, 0, 1], [5, 1, 5], [3, 2, 3]]


def explain(predictor, triple, **options):
    head, relation, tail = labels(predictor.graph, triple)
    return predictor.explain(head=head, relation=relation, tail=tail, **options)


def test_nearest_facts_are_those_of_a_full_sort(predictor):
    graph, table = predictor.graph, predictor.model.entities.detach().double().numpy()
    for triple in some_triples(graph):
        h, r, t = triple
        rows = []
        for a, b, c in graph.train.tolist():
            if b == r and [a, b, c] != triple:
                sides = cosine(table[h], table[a]), cosine(table[t], table[c])
                rows.append((sum(sides) / 2, *sides, labels(graph, (a, b, c))))
        rows.sort(key=lambda row: -row[0])
        found = explain(predictor, triple, most=4).nearest
        assert [given(near.fact) for near in found] == [row[-1] for row in rows[:4]]
        for near, row in zip(found, rows, strict=False):
            assert (near.similarity, near.head_similarity, near.tail_similarity) == pytest.approx(row[:3], abs=1e-6)


def test_links_and_paths_are_those_of_a_search_over_all_facts(predictor):
    graph = predictor.graph
    train = graph.train.tolist()
    for triple in some_triples(graph):
        h, _, t = triple
        why = explain(predictor, triple, most=99)
        links = [row for row in train if {row[0], row[2]} == {h, t} and row != triple]
        assert {given(link) for link in why.links} == {labels(graph, row) for row in links}
        joined = {i for i in range(14) if i not in (h, t) and h != t and all(
            any({row[0], row[2]} == {i, side} for row in train) for side in (h, t))}  # fmt: skip
        assert {path.through for path in why.paths} == {graph.entities.labels[i] for i in joined}
        assert why.head_facts == sum(h in (row[0], row[2]) for row in train)
        assert why.tail_facts == sum(t in (row[0], row[2]) for row in train)
        facts = [path.facts for path in why.paths]
        assert facts == sorted(facts)
        for path in why.paths:
            middle = graph.entities.labels.index(path.through)
            assert path.facts == sum(middle in (row[0], row[2]) for row in train)
            assert {path.from_head.head, path.from_head.tail} == {graph.entities.labels[h], path.through}
            assert {path.to_tail.head, path.to_tail.tail} == {graph.entities.labels[t], path.through}


def test_the_split_of_a_known_fact_is_named(predictor):
    graph = predictor.graph
    for split in ("train", "valid", "test"):
        assert {explain(predictor, row).known for row in graph.split(split)[:5]} == {split}
    known = set(map(tuple, graph.split("all").tolist()))
    unknown = next((h, 0, t) for h in range(14) for t in range(14) if (h, 0, t) not in known)
    assert explain(predictor, unknown).known is None


def test_what_is_held_out_is_no_evidence(predictor):
    held_out = {labels(predictor.graph, row) for row in [*predictor.graph.valid, *predictor.graph.test]}
    for triple in some_triples(predictor.graph):
        why = explain(predictor, triple, most=99)
        facts = [near.fact for near in why.nearest] + why.links
        facts += [fact for path in why.paths for fact in (path.from_head, path.to_tail)]
        assert facts
        assert not {given(fact) for fact in facts} & held_out


def test_dimensions_sum_to_the_score(predictor):
    why = explain(predictor, (0, 0, 1))
    assert why.dimensions.total == pytest.approx(why.score, rel=1e-5)
    assert sum(why.dimensions.values) == pytest.approx(why.dimensions.total, rel=1e-12)
    assert why.score == pytest.approx(predictor.score([labels(predictor.graph, (0, 0, 1))])[0], rel=1e-6)


def test_reciprocal_models_are_explained_for_the_side_that_was_asked_for(predictor):
    settings = model_settings({"name": "distmult", "dim": 4, "reciprocal": True})
    model = build_model(settings, len(predictor.graph.entities), 3)
    both = LinkPredictor(model, predictor.graph)
    tails = both.predict(relation="r0", top=14, head="e00")
    heads = both.predict(relation="r0", top=14, tail="e01")
    asked: list[tuple[Literal["head", "tail"], list[Prediction], str]] = [
        ("tail", tails, "e01"),
        ("head", heads, "e00"),
    ]
    for side, predictions, answer in asked:
        why = both.explain(head="e00", relation="r0", tail="e01", asked=side)
        assert why.score == pytest.approx({p.entity: p.score for p in predictions}[answer], rel=1e-5)
        assert why.dimensions
        assert sum(why.dimensions.values) == pytest.approx(why.score, rel=1e-5)


def test_a_model_without_summands_still_has_near_facts(predictor):
    settings = model_settings({"name": "conve", "dim": 12, "height": 3, "filters": 2})
    why = explain(LinkPredictor(build_model(settings, 14, 3), predictor.graph), (0, 0, 1))
    assert why.dimensions is None
    assert len(why.nearest) == 5


def test_a_calibrated_run_gives_the_probability(predictor, tmp_path):
    assert explain(predictor, (0, 0, 1)).probability is None
    predictor.folder = RunFolder(tmp_path)
    Calibration(2.0, -3.0, triples=10, seed=0, brier_score=0.1, expected_calibration_error=0.1).save(predictor.folder)
    why = explain(predictor, (0, 0, 1))
    assert why.probability == pytest.approx(1 / (1 + np.exp(3 - 2 * why.score)))


def test_json_is_plain(predictor):
    told = json.loads(json.dumps(explain(predictor, (0, 0, 1)).to_json(), allow_nan=False))
    assert told["fact"] == {"head": "e00", "relation": "r0", "tail": "e01", "head_name": "e00", "relation_name": "r0",
                            "tail_name": "e01"}  # fmt: skip
    assert set(told["nearest"][0]) == {"fact", "similarity", "head_similarity", "tail_similarity"}
    assert "no proof" in told["note"]


def test_zero_vectors_are_like_nothing(predictor):
    with torch.no_grad():
        predictor.model.entities[0] = 0
    assert all(near.head_similarity == 0 for near in explain(predictor, (0, 0, 1)).nearest)


def test_bad_queries(predictor):
    with pytest.raises(UnknownNameError, match="unknown entity 'e0O'"):
        predictor.explain(head="e0O", relation="r0", tail="e01")
    with torch.no_grad():
        predictor.model.entities[0] = torch.nan
    with pytest.raises(NonFiniteScoreError, match="e00 — r0 — e01 as nan"):
        explain(predictor, (0, 0, 1))


@pytest.mark.slow
@pytest.mark.parametrize("data", ["wn18rr", "fb15k-237"])
def test_a_real_graph_takes_less_than_a_tenth_of_a_second(real_data, one_thread, data):
    if not (real_data / data).is_dir():
        pytest.skip(f"{data} is not in CAPSE_DATA")
    graph = load_graph(data)
    settings = model_settings({"name": "capse", "filters": 400})
    predictor = LinkPredictor(build_model(settings, len(graph.entities), len(graph.relations)), graph)
    seconds = []
    for triple in graph.test[::150].tolist():
        explain(predictor, triple)  # the rules of a relation are looked for when it is first asked about
        start = time.perf_counter()
        explain(predictor, triple)
        seconds.append(time.perf_counter() - start)
    assert np.median(seconds) < 0.1


@pytest.mark.parametrize("asked", ["tail", "head"])
def test_the_strongest_dimensions_are_told_by_the_facts_that_they_carry(planted, asked):
    """By a product of three vectors, a fact and a dimension at a time."""
    model = build_model(DistMult(dim=5), len(planted.entities), len(planted.relations), seed=4)
    predictor = LinkPredictor(model, planted)
    head, relation, tail = (int(one) for one in planted.train[0])
    why = explain(predictor, (head, relation, tail), asked=asked)
    entities, relations = model.entities.detach().double().numpy(), model.relations.detach().double().numpy()
    others = [row for row in planted.train if row[1] == relation and tuple(row) != (head, relation, tail)]
    assert len(others) <= 256
    assert [one.dimension for one in why.carriers] == [place for place, _ in why.dimensions.strongest(3)]
    for one in why.carriers:
        added = [float((entities[h] * relations[r] * entities[t])[one.dimension]) for h, r, t in others]
        best = sorted(range(len(others)), key=lambda place: -np.sign(one.value) * added[place])[:2]
        assert one.like == [Fact.of(planted, others[place]) for place in best if added[place] * one.value > 0]
