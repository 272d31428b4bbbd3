"""TripleIndex against Python sets of tuples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from capse.errors import DataError
from capse.triples import Answers, TripleIndex


class Graph(NamedTuple):
    entities: int
    relations: int
    triples: list[tuple[int, int, int]]

    @property
    def array(self):
        return np.array(self.triples, dtype=np.int64).reshape(-1, 3)

    @property
    def index(self):
        return TripleIndex(self.array, self.entities, self.relations)

    @property
    def every_triple(self):
        return np.moveaxis(np.indices((self.entities, self.relations, self.entities)), 0, -1).reshape(-1, 3)


@st.composite
def graphs(draw):
    """Small graphs, with duplicates, possibly without a single triple."""
    entities, relations = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    entity, relation = st.integers(0, entities - 1), st.integers(0, relations - 1)
    return Graph(entities, relations, draw(st.lists(st.tuples(entity, relation, entity), max_size=40)))


EMPTY = Graph(3, 2, [])
ONE = Graph(1, 1, [(0, 0, 0)])
TWICE = Graph(4, 2, [(3, 1, 3), (0, 0, 1), (3, 1, 3)])


def over_graphs(test):
    for graph in (EMPTY, ONE, TWICE):
        test = example(graph=graph)(test)
    return settings(deadline=None)(given(graph=graphs())(test))


@over_graphs
def test_contains_is_set_membership(graph):
    known = set(graph.triples)
    heads, relations, tails = graph.every_triple.T
    found = graph.index.contains(heads, relations, tails)
    assert found.dtype == np.bool_
    assert found.tolist() == [tuple(triple) in known for triple in graph.every_triple.tolist()]


@over_graphs
def test_tails_are_the_sets_tails(graph):
    pairs = np.moveaxis(np.indices((graph.entities, graph.relations)), 0, -1).reshape(-1, 2)
    answers = graph.index.tails(pairs[:, 0], pairs[:, 1])
    assert len(answers) == len(pairs)
    for query, (h, r) in enumerate(pairs.tolist()):
        assert answers[query].tolist() == sorted({t for a, b, t in graph.triples if (a, b) == (h, r)})


@over_graphs
def test_heads_are_the_sets_heads(graph):
    pairs = np.moveaxis(np.indices((graph.relations, graph.entities)), 0, -1).reshape(-1, 2)
    answers = graph.index.heads(pairs[:, 0], pairs[:, 1])
    assert len(answers) == len(pairs)
    for query, (r, t) in enumerate(pairs.tolist()):
        assert answers[query].tolist() == sorted({h for h, a, b in graph.triples if (a, b) == (r, t)})


@over_graphs
def test_what_is_around_an_entity(graph):
    """Every known triple that it is in, once; those first in which it is the head."""
    for entity in range(graph.entities):
        found = [tuple(triple) for triple in graph.index.around(entity).tolist()]
        as_head = sorted(triple for triple in set(graph.triples) if triple[0] == entity)
        as_tail = sorted(triple for triple in set(graph.triples) if triple[2] == entity != triple[0])
        assert found[: len(as_head)] == as_head
        assert sorted(found[len(as_head) :]) == as_tail


@over_graphs
def test_its_length_counts_distinct_triples(graph):
    assert len(graph.index) == len(set(graph.triples))


@over_graphs
def test_keys_are_distinct_and_ordered_like_the_triples(graph):
    keys = graph.index.key(*graph.every_triple.T)
    assert keys.tolist() == list(range(graph.entities * graph.relations * graph.entities))
    assert graph.index.keys.tolist() == [
        keys[i] for i, x in enumerate(graph.every_triple.tolist()) if tuple(x) in set(graph.triples)
    ]


@over_graphs
def test_the_triples_own_array_is_left_alone(graph):
    array = graph.array
    index = TripleIndex(array, graph.entities, graph.relations)
    index.tails(array[:, 0], array[:, 1])
    index.heads(array[:, 1], array[:, 2])
    assert np.array_equal(array, graph.array)


@settings(deadline=None)
@given(graph=graphs(), data=st.data())
def test_queries_may_repeat_in_any_order(graph, data):
    """Each query has its own stretch of one array, in the order of the queries."""
    pair = st.tuples(st.integers(0, graph.entities - 1), st.integers(0, graph.relations - 1))
    pairs = np.array(data.draw(st.lists(pair, max_size=20)), dtype=np.int64).reshape(-1, 2)
    index = graph.index
    for answers, wanted in (
        (
            index.tails(pairs[:, 0], pairs[:, 1]),
            [{t for h, r, t in graph.triples if (h, r) == (e, q)} for e, q in pairs],
        ),
        (
            index.heads(pairs[:, 1], pairs[:, 0]),
            [{h for h, r, t in graph.triples if (t, r) == (e, q)} for e, q in pairs],
        ),
    ):
        assert answers.offsets.dtype == answers.entities.dtype == np.int64
        assert np.diff(answers.offsets).tolist() == [len(x) for x in wanted]
        assert answers.entities.tolist() == [entity for x in wanted for entity in sorted(x)]


def test_an_index_of_nothing_answers_every_question():
    index = EMPTY.index
    some = np.array([0, 1, 1])
    assert len(index) == 0
    assert index.contains(some, some, some).tolist() == [False, False, False]
    assert [x.tolist() for x in (index.tails(some, some)[1], index.heads(some, some)[2])] == [[], []]


@pytest.mark.parametrize("graph", [EMPTY, ONE, TWICE], ids=["empty", "one", "twice"])
def test_no_questions_have_no_answers(graph):
    none = np.array([], dtype=np.int64)
    assert graph.index.contains(none, none, none).shape == (0,)
    assert len(graph.index.tails(none, none)) == len(graph.index.heads(none, none)) == 0


def test_questions_may_have_more_than_one_dimension():
    """A batch of negatives is (triples, negatives): a column of heads against a grid of tails."""
    grid = TWICE.index.contains(np.array([[0], [3]]), np.array([[0], [1]]), np.array([[1, 2, 3], [0, 3, 3]]))
    assert grid.tolist() == [[True, False, False], [False, True, True]]


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint32, np.uint64])
def test_any_integers_are_ids(dtype):
    """Keys are larger than ids: they need 64 bits whatever the ids have."""
    entities, relations = 120, 100
    triples = np.array([[119, 99, 118], [119, 99, 0], [0, 3, 118]], dtype=dtype)
    index = TripleIndex(triples, entities, relations)
    assert index.keys.dtype == np.int64
    assert index.contains(*triples.T).all()
    assert not index.contains(*triples[:, ::-1].T).any()
    assert index.tails(triples[:, 0], triples[:, 1])[0].tolist() == [0, 118]
    assert index.heads(triples[:, 1], triples[:, 2])[2].tolist() == [0]
    assert index.tails(triples[:, 0], triples[:, 1]).entities.dtype == np.int64


def test_the_largest_ids_of_a_large_graph():
    """Wikidata's size: keys near 2⁶³ are still exact."""
    entities, relations = 90_000_000, 1_100
    last = np.array([[entities - 1, relations - 1, entities - 1], [entities - 1, relations - 1, entities - 2]])
    index = TripleIndex(last, entities, relations)
    assert index.keys[-1] == entities * entities * relations - 1
    assert index.contains(*last.T).all()
    assert index.tails(last[:1, 0], last[:1, 1])[0].tolist() == [entities - 2, entities - 1]
    assert index.heads(last[:1, 1], last[:1, 2])[0].tolist() == [entities - 1]


def test_a_graph_beyond_64_bits_is_refused():
    with pytest.raises(DataError, match="3,000,000,000 entities and 2 relations are more than one index can hold"):
        TripleIndex(np.zeros((0, 3), dtype=np.int64), entities=3_000_000_000, relations=2)


def test_answers_are_slices_of_one_array():
    answers = Answers(offsets=np.array([0, 2, 2, 3]), entities=np.array([4, 7, 1]))
    assert len(answers) == 3
    assert [answers[query].tolist() for query in range(3)] == [[4, 7], [], [1]]
    assert np.shares_memory(answers[0], answers.entities)
