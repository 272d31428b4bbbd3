"""Splits drawn a chunk at a time are those drawn at once."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capse.errors import SettingsError
from capse.graph import drawn_splits
from capse.graph.dataset import Graph
from capse.graph.splits import split_graph

TRIPLES = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 6)), min_size=1, max_size=40, unique=True
)


@given(TRIPLES, st.floats(0, 0.5), st.floats(0, 0.49), st.integers(0, 5), st.booleans(), st.integers(1, 50))
def test_they_are_those_of_split_graph(triples, valid, test, seed, allow_unseen, chunk):
    graph = Graph.from_triples([(f"e{h}", f"r{r}", f"e{t}") for h, r, t in triples])
    sizes = len(graph.entities), len(graph.relations)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawn_splits, "_CHUNK", chunk)

        def drawn():
            return drawn_splits.draw_splits(graph.train, *sizes, valid, test, seed, allow_unseen)

        try:
            expected = split_graph(graph, valid, test, seed, allow_unseen)
        except SettingsError as error:
            with pytest.raises(SettingsError, match=re.escape(str(error))):
                drawn()
            return
        splits = drawn()
    for number, split in enumerate(("train", "valid", "test")):
        np.testing.assert_array_equal(graph.train[splits == number], expected.split(split))


def test_an_order_is_shuffled_in_four_bytes_as_it_is_permuted_in_eight() -> None:
    order = np.arange(100_003, dtype=np.int32)
    one, other = np.random.default_rng(7), np.random.default_rng(7)
    one.shuffle(order)
    np.testing.assert_array_equal(order, other.permutation(len(order)))
    assert one.random() == other.random()
