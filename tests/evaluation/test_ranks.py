"""Ranks: ties, filtering, and scores that are no numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from capse.errors import CapseError
from capse.evaluation.ranks import NonFiniteScoreError, Ranks, rank_scores
from capse.triples import Answers


def answers(*lists):
    return Answers(np.cumsum([0, *map(len, lists)]), np.array([e for answer in lists for e in answer], np.int64))


SCORES = np.array([[3.0, 1.0, 3.0, 2.0, 3.0], [5.0, 5.0, 5.0, 5.0, 5.0]])


def test_ties_stand_between_optimistic_and_pessimistic():
    ranks = rank_scores(SCORES, np.array([2, 0]))
    assert ranks.optimistic.tolist() == [1, 1]
    assert ranks.realistic.tolist() == [2, 3]
    assert ranks.pessimistic.tolist() == [3, 5]
    assert ranks.candidates.tolist() == [5, 5]


def test_other_known_answers_do_not_compete():
    ranks = rank_scores(SCORES, np.array([3, 0]), answers([0, 1, 3], [0, 4]))
    assert (ranks.greater.tolist(), ranks.equal.tolist()) == ([2, 0], [0, 3])
    assert ranks.candidates.tolist() == [3, 4]


def test_queries_may_share_a_row():
    rows = np.array([1, 0, 0])
    ranks = rank_scores(SCORES, np.array([4, 0, 1]), answers([0, 1], []), rows=rows)
    assert ranks.greater.tolist() == [0, 0, 3]
    assert ranks.equal.tolist() == [4, 2, 0]


def test_everything_else_known():
    ranks = rank_scores(SCORES[:1], np.array([1]), answers(range(5)))
    assert (ranks.optimistic.item(), ranks.pessimistic.item(), ranks.candidates.item()) == (1, 1, 1)


def test_tensors_and_arrays_rank_alike():
    of_array, of_tensor = (rank_scores(kind, np.array([2, 0])) for kind in (SCORES, torch.tensor(SCORES)))
    assert of_array.pessimistic.tolist() == of_tensor.pessimistic.tolist()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("candidate", [0, 3], ids=["the true one", "another"])
def test_what_is_no_number_has_no_rank(value, candidate):
    scores = SCORES.copy()
    scores[1, candidate] = value
    with pytest.raises(NonFiniteScoreError, match=f"candidate {candidate} of query 1 as {value}") as caught:
        rank_scores(scores, np.array([2, 0]), answers([], [0, 3]))
    assert isinstance(caught.value, CapseError)


@pytest.mark.parametrize(("true", "rows"), [([5], [0]), ([-1], [0]), ([0], [2]), ([0], [-1])])
def test_indices_out_of_range(true, rows):
    with pytest.raises(IndexError):
        rank_scores(SCORES, np.array(true), rows=np.array(rows))


def test_answers_for_too_few_rows():
    with pytest.raises(IndexError):
        rank_scores(SCORES, np.array([0, 0]), answers([1]))


def test_choosing_and_joining():
    ranks = Ranks(np.array([0, 1, 2]), np.array([3, 4, 5]), np.array([9, 9, 9]))
    assert len(ranks) == 3
    assert ranks[np.array([True, False, True])].greater.tolist() == [0, 2]
    joined = Ranks.concatenate([ranks[np.array([2, 0])], ranks[1:2]])
    assert joined.equal.tolist() == [5, 3, 4]
