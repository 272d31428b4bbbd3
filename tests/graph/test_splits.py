import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capse.errors import SettingsError
from capse.graph.dataset import Graph
from capse.graph.splits import hold_out, split_graph

TRIPLES = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 6)), min_size=1, max_size=40, unique=True
)


def graph_of(triples):
    return Graph.from_triples([(f"e{h}", f"r{r}", f"e{t}") for h, r, t in triples])


def covered(triples):
    return set(triples[:, [0, 2]].ravel()), set(triples[:, 1])


def rows(triples):
    return sorted(map(tuple, triples.tolist()))


@given(TRIPLES, st.floats(0, 0.5), st.floats(0, 0.49), st.integers(0, 5), st.booleans())
def test_a_split_is_exact_and_leaves_nothing_unseen(triples, valid, test, seed, allow_unseen):
    graph = graph_of(triples)
    try:
        parts = split_graph(graph, valid, test, seed, allow_unseen)
    except SettingsError:
        assert not allow_unseen
        return
    assert (len(parts.valid), len(parts.test)) == (round(valid * len(triples)), round(test * len(triples)))
    assert rows(parts.split("all")) == rows(graph.train)
    assert all(rows(parts.split(s)) == list(map(tuple, parts.split(s).tolist())) for s in ("train", "valid", "test"))
    if not allow_unseen:
        assert covered(parts.train) == covered(graph.train)


@given(TRIPLES)
def test_holding_out_fails_only_when_nothing_more_can_be_spared(triples):
    array = np.array(triples, np.int32)
    wanted = 0
    while True:
        try:
            held_out = hold_out(array, wanted, 7, 3)
        except SettingsError:
            break
        assert len(set(held_out.tolist())) == wanted
        wanted += 1
    kept = np.delete(array, hold_out(array, wanted - 1, 7, 3), axis=0)
    assert covered(kept) == covered(array)
    assert all(covered(np.delete(kept, i, axis=0)) != covered(array) for i in range(len(kept)))


def test_the_middle_of_a_path_can_be_spared():
    path = np.array([[0, 0, 1], [1, 0, 2], [2, 0, 3]], np.int32)
    assert hold_out(path, 1, 4, 1).tolist() == [1]


def test_an_entity_of_one_triple_with_itself_is_not_spared():
    loops = np.array([[0, 0, 0], [1, 0, 1]], np.int32)
    with pytest.raises(SettingsError, match="hold out fewer, or allow unseen ones"):
        hold_out(loops, 1, 2, 1)


def test_the_seed_decides():
    graph = graph_of([(h, r, t) for h in range(7) for r in range(3) for t in range(7)])
    first, again, other = (split_graph(graph, 0.2, 0.2, seed) for seed in (1, 1, 2))
    assert rows(first.test) == rows(again.test)
    assert rows(first.test) != rows(other.test)


def test_every_triple_has_the_same_chance_where_nothing_is_scarce():
    graph = graph_of([(h, r, t) for h in range(7) for r in range(3) for t in range(7)])
    times = np.zeros(147)
    for seed in range(200):
        times[graph.known.keys.searchsorted(graph.known.key(*split_graph(graph, 0.1, 0.1, seed).test.T))] += 1
    assert times.sum() == 200 * 15
    assert times.max() < 3 * times.mean()
    assert times.min() > 0


@pytest.mark.parametrize(("valid", "test"), [(0.5, 0.5), (-0.1, 0.1), (0.1, -0.1), (float("nan"), 0.1), (1.5, 0)])
def test_impossible_fractions(valid, test):
    with pytest.raises(SettingsError, match="do not leave a training set"):
        split_graph(graph_of([(0, 0, 1)]), valid, test)
