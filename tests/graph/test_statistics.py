from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capse.graph.dataset import Graph, load_graph
from capse.graph.statistics import (
    describe,
    entity_frequency,
    has_unseen_entity,
    mirrored_relations,
    relation_categories,
)

PLANTED = Graph.from_triples(
    train=[
        *((f"c{i}", "capital_of", f"s{i}") for i in range(4)),
        *(("europe", "contains", f"s{i}") for i in range(4)),
        *((f"s{i}", "in", "europe") for i in range(4)),
        *((f"s{i}", "borders", f"s{j}") for i in range(4) for j in range(4) if i != j and (i, j) != (0, 1)),
    ],
    valid=[("c0", "capital_of", "s0")],
    test=[
        ("s0", "borders", "s1"),
        ("c9", "capital_of", "s1"),
        ("c1", "twinned_with", "c2"),
        ("c0", "capital_of", "s0"),
    ],
)


def test_categories():
    categories = dict(zip(PLANTED.relations.labels, relation_categories(PLANTED), strict=True))
    assert categories == {"borders": "M-M", "capital_of": "1-1", "contains": "1-M", "in": "M-1", "twinned_with": "1-1"}


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=60))
def test_categories_by_the_definition(triples):
    graph = Graph.from_triples([(f"e{h}", f"r{r}", f"e{t}") for h, r, t in triples])
    tails, heads = defaultdict(set), defaultdict(set)
    for h, r, t in graph.train.tolist():
        tails[r, h].add(t)
        heads[r, t].add(h)
    for relation, category in enumerate(relation_categories(graph)):
        sides = [np.mean([len(v) for (r, _), v in groups.items() if r == relation]) for groups in (heads, tails)]
        assert category == "-".join("M" if side >= 1.5 else "1" for side in sides)


def test_planted_statistics():
    found = describe(PLANTED)
    assert (found.entities, found.relations) == (10, 5)
    assert found.triples == {"train": 23, "valid": 1, "test": 4}
    assert found.category_relations == {"1-1": 2, "1-M": 1, "M-1": 1, "M-M": 1}
    assert found.category_test_share == {"1-1": 0.75, "1-M": 0.0, "M-1": 0.0, "M-M": 0.25}
    assert found.shared == {"train-valid": 1, "train-test": 1, "valid-test": 1}
    assert found.unseen == {"valid": 0, "test": 1}
    assert found.unseen_relation == {"valid": 0, "test": 1}
    assert found.test_reversed_in_train == 1  # s1 borders s0
    assert found.mirrored_relations == [("borders", "borders"), ("contains", "in")]


def test_frequencies_and_unseen_entities():
    frequency = dict(zip(PLANTED.entities.labels, entity_frequency(PLANTED).tolist(), strict=True))
    assert frequency["europe"] == 8
    assert frequency["c9"] == 0
    unseen = PLANTED.test[has_unseen_entity(PLANTED, PLANTED.test)]
    assert [PLANTED.entities.labels[h] for h in unseen[:, 0]] == ["c9"]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=60))
def test_mirrored_relations_by_the_definition(triples):
    graph = Graph.from_triples([(f"e{h}", f"r{r}", f"e{t}") for h, r, t in triples])
    pairs = defaultdict(set)
    for h, r, t in graph.train.tolist():
        pairs[graph.relations.labels[r]].add((h, t))
    mirror = {relation: {(t, h) for h, t in joined} for relation, joined in pairs.items()}
    expected = [
        (r, s)
        for r in graph.relations.labels
        for s in graph.relations.labels
        if r <= s and len(mirror[r] & pairs[s]) >= max(1, 0.8 * max(len(pairs[r]), len(pairs[s])))
    ]
    assert mirrored_relations(graph) == expected


def test_a_graph_without_a_test_split():
    assert describe(Graph.from_triples([("a", "r", "b")])).category_test_share["1-1"] == 0.0


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize(
    ("name", "relations", "shares", "unseen"),
    [
        ("fb15k-237", [17, 26, 81, 113], [0.9, 6.3, 20.4, 72.3], 28),
        ("wn18rr", [2, 4, 3, 2], [1.3, 15.2, 47.4, 36.1], 210),
    ],
)
def test_the_benchmarks(name, relations, shares, unseen):
    found = describe(load_graph(name))
    assert list(found.category_relations.values()) == relations
    assert [round(100 * share, 1) for share in found.category_test_share.values()] == shares
    assert found.unseen["test"] == unseen
    assert not any(found.shared.values())
    assert not any(found.repeated.values())
