"""Compiled routing and what it is made of, compared with NumPy and with the plain formula in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numba import njit

from capse.kernels import cpu, reference
from capse.kernels.cpu.exponential import exp
from capse.kernels.cpu.lanes import largest, load, maximum, store, transpose
from capse.kernels.cpu.routing import CAPSULES
from capse.kernels.stage import Stage

types = pytest.mark.parametrize("dtype", [np.float32, np.float64])
sizes = pytest.mark.parametrize(("k", "d"), [(1, 1), (100, 1), (15, 3), (16, 4), (17, 5), (33, 17), (100, 10)])


@pytest.fixture(autouse=True, scope="module")
def in_one_thread(one_thread: None) -> None:
    """Tensors this small are done before a second thread has woken up."""


@njit
def exp_of(numbers, results):
    for at in range(0, len(numbers), len(CAPSULES)):
        store(results, at, exp(load(numbers, at, CAPSULES)))


@njit
def largest_of(numbers):
    return largest(maximum(load(numbers, 0, CAPSULES), load(numbers, len(CAPSULES), CAPSULES)))


@njit
def transposed(array, start, stride, result, to, to_stride):
    transpose(array, start, stride, result, to, to_stride, CAPSULES)


class TestLanes:
    @types
    def test_exp_is_right_to_the_last_bits(self, dtype):
        least = -87 if dtype == np.float32 else -708
        numbers = np.concatenate([np.linspace(least, 0, 2**14), -np.logspace(-30, 1, 2**14)]).astype(dtype)
        results = np.empty_like(numbers)
        exp_of(numbers, results)
        exact = np.exp(numbers.astype(np.longdouble))
        assert (abs(results - exact) / exact).max() < 1.5 * np.finfo(dtype).eps
        assert (results[numbers == 0] == 1).all()

    @types
    def test_exp_of_much_less_is_next_to_nothing(self, dtype):
        numbers = np.full(16, -np.inf, dtype)
        numbers[1:4] = -100, -1e4, -1e30
        numbers[5] = np.nan
        results = np.empty_like(numbers)
        exp_of(numbers, results)
        assert np.isnan(results[5])
        others = np.delete(results, 5)
        assert (others >= 0).all()
        assert (others < 1e-37).all()

    @types
    def test_largest(self, dtype):
        numbers = np.random.default_rng(0).normal(size=32).astype(dtype)
        for _ in range(32):
            numbers = np.roll(numbers, 1)
            assert largest_of(numbers) == numbers.max()

    @types
    def test_transpose(self, dtype):
        array = np.arange(3 + 16 * 20, dtype=dtype)
        result = np.zeros(100, dtype)
        transposed(array, 3, 20, result, 5, 17)
        expected = np.zeros(100, dtype)
        for c in range(4):
            expected[5 + 17 * c :][:16] = array[3:].reshape(16, 20)[:, c]
        assert (result == expected).all()


def draw(kind, m, k, d, dtype=torch.float32, *, scale=1.0, size=0.3, candidates=40):
    """A stage, and the known and the candidates' vectors."""
    generator = torch.Generator().manual_seed(0)
    shapes = (3, 9), (9,), (k, 9, d), (2, k), (2, k), (candidates, k)
    tensors = [(size * torch.randn(*shape, generator=generator)).to(dtype) for shape in shapes]
    filters, bias, weights, *vectors = tensors
    return Stage(filters, bias, weights, kind, m, scale, 1e-9 if kind == "released" else 0.0), *vectors


def exact_scores(stage, first, second, candidates):
    wide = replace(stage, **{name: tensor.double() for name, tensor in stage.tensors.items()})
    return reference.score(wide, first[:, None].double(), second[:, None].double(), candidates.double())


class TestScores:
    @sizes
    @pytest.mark.parametrize("kind", ["length", "paper", "released"])
    @pytest.mark.parametrize("m", [2, 3, 7])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_any_number_of_capsules(self, k, d, kind, m, dtype):
        stage, *tensors = draw(kind, m, k, d, dtype, scale=0.5 * k)
        exact = exact_scores(stage, *tensors)
        error = (cpu.score_candidates(stage, 2, *tensors) - exact).abs().max() / exact.abs().max()
        assert error < (1e-6 if dtype == torch.float32 else 1e-13)

    def test_agreement_beyond_what_exp_can_hold(self):
        stage, *tensors = draw("length", 5, 20, 3, torch.float64, size=4)
        exact = exact_scores(stage, *tensors)
        assert exact.max() > 1000
        torch.testing.assert_close(cpu.score_candidates(stage, 2, *tensors), exact, rtol=1e-11, atol=0)

    @sizes
    def test_no_votes_at_all(self, k, d):
        stage, first, second, candidates = draw("paper", 3, k, d)
        stage.bias.fill_(-100)
        assert not cpu.score_candidates(stage, 2, first, second, candidates).any()

    @sizes
    def test_equal_candidates_tie_wherever_they_stand(self, k, d):
        stage, first, second, few = draw("paper", 4, k, d, candidates=5)
        which = torch.randint(5, (700,), generator=torch.Generator().manual_seed(0))
        scores = cpu.score_candidates(stage, 2, first, second, few[which])
        assert scores.equal(cpu.score_candidates(stage, 2, first, second, few)[:, which])

    @sizes
    def test_votes_are_kept_without_what_pads_them(self, k, d):
        stage, first, second, candidates = draw("paper", 3, k, d)
        made = cpu.votes(stage, 2, first, second, candidates)
        capsules = reference.features(first[:, None], second[:, None], candidates, stage.filters, stage.bias)
        torch.testing.assert_close(made, reference.predictions(capsules, stage.weights), rtol=1e-4, atol=1e-6)
