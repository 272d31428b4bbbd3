"""Metrics of ranked lists, against every order of the ties."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capse.errors import RunError
from capse.search.evaluation.list_metrics import NAMES, click_reciprocal_ranks, expected_chance, list_metrics

# A list: one (score, relevant) pair per document; few distinct scores, so that many tie.
LIST = st.lists(st.tuples(st.sampled_from([-1.5, -0.0, 0.0, 2.0]), st.booleans()), min_size=1, max_size=6)
LISTS = st.lists(LIST, min_size=1, max_size=5)


def arrays(lists):
    rows = [pair for pairs in lists for pair in pairs]
    scores = np.array([score for score, _ in rows], np.float64)
    relevant = np.array([label for _, label in rows], np.bool_)
    return scores, relevant, np.array([len(pairs) for pairs in lists], np.int64)


def of_one_order(labels):
    """MRR, Hits@1 and NDCG@10 of one order of labels, by their definitions."""
    ranks = [rank for rank, label in enumerate(labels, start=1) if label]
    if not ranks:
        return 0.0, 0.0, 0.0
    gained = sum(1 / math.log2(rank + 1) for rank in ranks if rank <= 10)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(ranks), 10) + 1))
    return 1 / ranks[0], float(ranks[0] == 1), gained / ideal


def orders(pairs):
    """Every order of the documents that the scores allow."""
    for order in itertools.permutations(range(len(pairs))):
        scores = [pairs[place][0] for place in order]
        if all(a >= b for a, b in itertools.pairwise(scores)):
            yield order


@given(LISTS)
def test_the_mean_over_every_order(lists):
    found = list_metrics(*arrays(lists)).table
    expected = [
        np.mean([of_one_order([pairs[place][1] for place in order]) for order in orders(pairs)], axis=0)
        for pairs in lists
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@given(LISTS)
def test_clicks_in_every_order(lists):
    expected = []
    for pairs in lists:
        clicks = [place for place, (_, label) in enumerate(pairs) if label]
        expected += [np.mean([1 / (order.index(click) + 1) for order in orders(pairs)]) for click in clicks]
    np.testing.assert_allclose(click_reciprocal_ranks(*arrays(lists)), expected, rtol=1e-12)


@given(LISTS, st.randoms())
def test_a_shuffled_list_is_the_same_list(lists, random):
    shuffled = [random.sample(pairs, len(pairs)) for pairs in lists]
    assert (list_metrics(*arrays(lists)).table == list_metrics(*arrays(shuffled)).table).all()


@pytest.mark.parametrize("seed", range(3))
def test_ndcg_is_that_of_scikit_learn(seed):
    """Its ``ndcg_score`` averages the gains of ties, also where a tie group reaches beyond the tenth place."""
    from sklearn.metrics import ndcg_score

    generator = np.random.default_rng(seed)
    lengths = generator.integers(2, 30, size=40)
    scores = generator.integers(0, 6, size=lengths.sum()).astype(np.float64)
    relevant = generator.random(lengths.sum()) < 0.4
    found = list_metrics(scores, relevant, lengths).ndcg10
    ends = np.cumsum(lengths)[:-1]
    expected = [
        ndcg_score([labels.astype(int)], [values], k=10)
        for labels, values in zip(np.split(relevant, ends), np.split(scores, ends), strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_constant_scorer_gets_chance():
    """Also where the relevant document stands first in every list."""
    relevant = np.tile(np.arange(10) == 0, 50)
    lengths = np.full(50, 10)
    constant = list_metrics(np.full(500, 7.0), relevant, lengths)
    assert constant.means()["mrr"] == pytest.approx(np.mean(1 / np.arange(1, 11)))
    assert constant.means()["hits@1"] == pytest.approx(0.1)
    assert (constant.table == expected_chance(relevant, lengths).table).all()


def test_the_best_order_is_exactly_one():
    relevant = np.array([True, False, True, True, True, False, False])
    lengths = np.array([4, 0, 3])
    scores = np.where(relevant, 10.0, 0.0) - np.arange(7.0)
    assert list_metrics(scores, relevant, lengths).table.tolist() == [[1, 1, 1], [0, 0, 0], [1, 1, 1]]


def test_a_list_of_ten_thousand_ties():
    """One of two relevant documents among g comes first at j with probability 2 (g − j) / (g (g − 1))."""
    g = 10_000
    places = np.arange(1.0, g)
    expected = (2 * (g - places) / (g * (g - 1)) / places).sum()
    found = expected_chance(np.arange(g) < 2, np.array([g]))
    assert found.mrr[0] == pytest.approx(expected, rel=1e-9)
    assert found.hits1[0] == 2 / g


def test_parts_and_names():
    scores, relevant = np.array([1.0, 2.0, 3.0, 0.0]), np.array([False, True, False, True])
    metrics = list_metrics(scores, relevant, np.array([2, 2]))
    assert tuple(metrics.means()) == NAMES
    assert metrics[np.array([False, True])].means()["mrr"] == 0.5
    assert len(metrics) == 2


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("measure", [list_metrics, click_reciprocal_ranks])
def test_a_score_that_is_none(score, measure):
    with pytest.raises(RunError, match=f"P-Click scores a document of list 1 as {score}"):
        measure(np.array([1.0, 2.0, score]), np.array([True, True, False]), np.array([1, 2]), method="P-Click")


def test_arrays_of_different_lengths():
    with pytest.raises(ValueError, match="2 scores and 3 labels for lists with 3 documents"):
        list_metrics(np.zeros(2), np.zeros(3, np.bool_), np.array([3]))
