"""Both ways of counting against masks and sums in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from capse.kernels import counting
from capse.kernels.compiled import numba
from capse.kernels.counting import Counts, count_competitors, count_with_torch

TIED = st.sampled_from([np.float32(-1e30), -1.0, -0.0, 0.0, 1.0, np.float32(1) + np.finfo(np.float32).eps])
ANY = TIED | st.sampled_from([np.nan, np.inf, -np.inf])


def counts_by_masks(scores, rows, true, offsets, known):
    greater, equal, competitors, finite = [], [], [], []
    for row, candidate in zip(rows, true, strict=True):
        competes = np.ones(scores.shape[1], bool)
        competes[known[offsets[row] : offsets[row + 1]]] = False
        competes[candidate] = False
        greater.append(np.sum(scores[row, competes] > scores[row, candidate]))
        equal.append(np.sum(scores[row, competes] == scores[row, candidate]))
        competitors.append(np.sum(competes))
        finite.append(np.isfinite(scores[row]).all())
    above, tied, all_others = (np.array(column, np.int64) for column in (greater, equal, competitors))
    return Counts(above, tied, all_others, np.array(finite, bool))


@st.composite
def questions(draw, elements=TIED):
    """A score matrix with ties, queries that share rows, and each row's known answers."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    shape = draw(array_shapes(min_dims=2, max_dims=2, max_side=40))
    scores = draw(arrays(dtype, shape, elements=elements))
    n = draw(st.integers(0, 8))
    rows = draw(arrays(np.int64, n, elements=st.integers(0, shape[0] - 1)))
    true = draw(arrays(np.int64, n, elements=st.integers(0, shape[1] - 1)))
    known = [np.flatnonzero(mask) for mask in draw(arrays(bool, shape))]
    offsets = np.cumsum([0] + [len(answers) for answers in known])
    return scores, rows, true, offsets, np.concatenate(known)


def assert_same(ours: Counts, expected: Counts) -> None:
    np.testing.assert_array_equal(ours.finite, expected.finite)
    for column in ("greater", "equal", "competitors"):
        np.testing.assert_array_equal(
            getattr(ours, column)[expected.finite], getattr(expected, column)[expected.finite]
        )


@settings(deadline=None)
@given(questions(elements=ANY))
def test_both_paths_count_like_masks(question):
    scores, *rest = question
    expected = counts_by_masks(scores, *rest)
    assert_same(count_competitors(torch.from_numpy(scores), *rest), expected)
    assert_same(count_with_torch(torch.from_numpy(scores), *rest), expected)


@pytest.fixture
def large_question():
    generator = np.random.default_rng(0)
    scores = generator.integers(-50, 50, (30, 2001)).astype(np.float32)
    rows, true = generator.integers(0, 30, 200), generator.integers(0, 2001, 200)
    known = np.sort(np.array([generator.permutation(2001)[:60] for _ in range(30)]), axis=1)
    return scores, rows, true, np.arange(0, 1801, 60), known.ravel()


@pytest.mark.skipif(numba is None, reason="threads are numba's")
def test_threads_change_nothing(large_question):
    scores, *rest = large_question
    expected = counts_by_masks(scores, *rest)
    threads = numba.get_num_threads()
    try:
        for number in (1, threads):
            numba.set_num_threads(number)
            assert_same(count_competitors(torch.from_numpy(scores), *rest), expected)
    finally:
        numba.set_num_threads(threads)


def test_without_numba(large_question, monkeypatch):
    monkeypatch.setattr(counting, "_compiled_count", None)
    scores, *rest = large_question
    assert_same(count_competitors(torch.from_numpy(scores), *rest), counts_by_masks(scores, *rest))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(large_question, dtype):
    scores, *rest = large_question  # small whole numbers: exact in any format
    assert_same(count_competitors(torch.from_numpy(scores).to(dtype), *rest), counts_by_masks(scores, *rest))


def test_scores_are_read_where_they_lie(large_question):
    """A transposed matrix, and one that a gradient flows through, are counted and not changed."""
    scores, *rest = large_question
    table = torch.from_numpy(scores.T.copy()).T.requires_grad_()
    assert_same(count_competitors(table, *rest), counts_by_masks(scores, *rest))
    np.testing.assert_array_equal(table.detach().numpy(), scores)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_on_the_gpu(large_question):
    scores, *rest = large_question
    assert_same(count_competitors(torch.from_numpy(scores).cuda(), *rest), counts_by_masks(scores, *rest))
