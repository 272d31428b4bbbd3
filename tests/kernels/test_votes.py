"""Votes and their gradients by the compiled kernel, compared with autograd through the plain formula in float64."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from capse.kernels import cpu, reference, votes
from capse.kernels.stage import Stage
from capse.kernels.votes import score_by_votes

KINDS = ["linear", "length", "paper", "released"]
CASES = [("linear", 1), *((kind, routing) for kind in KINDS[1:] for routing in (1, 3))]
NAMES = ["filters", "bias", "weights", "first", "second", "candidates"]
SIZES = {"k": 5, "filters": 20, "d": 20, "queries": 4, "candidates": 150}  # the largest that hypothesis tries

cases = pytest.mark.parametrize(("kind", "routing"), CASES)
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
slots = pytest.mark.parametrize("slot", [0, 1, 2])


@pytest.fixture(autouse=True, scope="module")
def in_one_thread(one_thread: None) -> None:
    """Tensors this small are done before a second thread has woken up."""


class Tensors(NamedTuple):
    """All that scores have gradients in."""

    filters: Tensor
    bias: Tensor
    weights: Tensor
    first: Tensor
    second: Tensor
    candidates: Tensor


def draw(normal, *, k=6, filters=12, d=5, queries=3, candidates=90, slot=2, blind=True):
    """Tensors of numbers that ``normal`` gives for a shape; every fourth filter does not see the candidate."""
    shapes = (3, filters), (filters,), (k, filters, d), (queries, k), (queries, k), (candidates, k)
    tensors = Tensors(*(normal(*shape) for shape in shapes))
    if blind:
        tensors.filters[slot, ::4] = 0
    return tensors


def normal(seed=0, dtype=torch.float32, scale=0.5):
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape: (scale * torch.randn(*shape, generator=generator)).to(dtype)


def stage_of(tensors, kind, routing):
    released = kind == "released"
    scale, epsilon = (float(len(tensors.weights)), 1e-9) if released else (1.0, 0.0)
    return Stage(
        tensors.filters, tensors.bias, tensors.weights, kind=kind, routing=routing, scale=scale, epsilon=epsilon
    )


def by_kernel(tensors, kind, routing, slot):
    return score_by_votes(stage_of(tensors, kind, routing), slot, *tensors[3:])


def by_formula(tensors, kind, routing, slot):
    triple = [tensors.first[:, None], tensors.second[:, None]]
    triple.insert(slot, tensors.candidates)
    return reference.score(stage_of(tensors, kind, routing), *triple)


def gradients(score, tensors, kind, routing, slot, dtype=None):
    """Scores, and the gradients of Σ c·score with fixed random c, in float64."""
    tensors = Tensors(*(x.to(dtype or x.dtype).detach().clone().requires_grad_() for x in tensors))
    scores = score(tensors, kind, routing, slot)
    factors = torch.randn(scores.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    found = torch.autograd.grad((scores.double() * factors).sum(), tensors)
    return [scores.detach().double(), *(x.double() for x in found)]


def assert_same(found, expected, tolerance):
    """Within a tolerance, relative to the largest number of each gradient, or of all where one is next to nothing."""
    floor = 1e-2 * max(x.abs().max() for x in expected)
    for name, ours, exact in zip(["scores", *NAMES], found, expected, strict=True):
        error = (ours - exact).abs().max() / max(exact.abs().max(), floor, 1e-30)
        assert error < tolerance, f"{name}: {error:.1e}"


def tolerance_for(dtype):
    return 1e-4 if dtype == torch.float32 else 1e-9


class TestGradients:
    @cases
    @slots
    @dtypes
    def test_those_of_the_plain_formula(self, kind, routing, slot, dtype):
        tensors = draw(normal(dtype=dtype), slot=slot, d=1 if kind == "linear" else 5)
        found = gradients(by_kernel, tensors, kind, routing, slot)
        assert_same(found, gradients(by_formula, tensors, kind, routing, slot, torch.float64), tolerance_for(dtype))

    @dtypes
    @given(data=st.data())
    @settings(max_examples=40, deadline=None)
    def test_any_shape(self, dtype, data):
        kind, routing = data.draw(st.sampled_from(CASES))
        sizes = {name: data.draw(st.integers(1, most), name) for name, most in SIZES.items()}
        slot, blind = data.draw(st.sampled_from([0, 1, 2])), data.draw(st.booleans())
        tensors = draw(normal(data.draw(st.integers(0, 9)), dtype), **sizes, slot=slot, blind=blind)
        if kind == "linear":
            tensors = tensors._replace(weights=tensors.weights[..., :1])
        if data.draw(st.booleans(), "mostly off"):
            tensors.bias.sub_(1)
        found = gradients(by_kernel, tensors, kind, routing, slot)
        assert_same(found, gradients(by_formula, tensors, kind, routing, slot, torch.float64), tolerance_for(dtype))

    @dtypes
    @given(data=st.data())
    @settings(max_examples=60, deadline=None)
    def test_on_breakpoints(self, dtype, data):
        """With small whole numbers many filters are exactly at theirs: they are off, and have no derivative there."""

        def whole(*shape):
            size = math.prod(shape)
            numbers = data.draw(st.lists(st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0]), min_size=size, max_size=size))
            return torch.tensor(numbers, dtype=dtype).view(shape)

        kind, routing = data.draw(st.sampled_from(CASES))
        slot = data.draw(st.sampled_from([0, 2]))
        tensors = draw(whole, k=2, filters=5, d=1 if kind == "linear" else 2, queries=2, candidates=9, blind=False)
        found = gradients(by_kernel, tensors, kind, routing, slot)
        expected = gradients(by_formula, tensors, kind, routing, slot, torch.float64)
        if kind == "linear":
            assert found[0].equal(expected[0])
        assert_same(found, expected, tolerance_for(dtype))

    @pytest.mark.parametrize(("kind", "routing"), CASES[:-1])  # the last one's flows through one iteration alone
    def test_finite_differences(self, kind, routing):
        tensors = draw(
            normal(3, torch.float64), k=2, filters=5, d=1 if kind == "linear" else 2, queries=2, candidates=4
        )
        tensors = [x.requires_grad_() for x in tensors]
        assert torch.autograd.gradcheck(lambda *x: by_kernel(Tensors(*x), kind, routing, 2), tensors)

    @cases
    def test_a_filter_that_is_on_nowhere_gets_exactly_zero(self, kind, routing):
        tensors = draw(normal(), d=1 if kind == "linear" else 5)
        tensors.bias[5:8] = -100
        found = dict(zip(NAMES, gradients(by_kernel, tensors, kind, routing, 2)[1:], strict=True))
        assert not found["filters"][:, 5:8].any()
        assert not found["bias"][5:8].any()
        assert not found["weights"][:, 5:8].any()
        assert found["weights"].any()

    def test_breakpoints_beyond_all_numbers(self):
        """A weight so small that −a/w overflows: nothing is there, and nothing becomes NaN."""
        tensors = draw(normal(), blind=False)
        tensors.filters[2, :3] = torch.tensor([1e-42, -1e-42, 1e-38])
        for kind, routing in CASES[1:]:
            found = gradients(by_kernel, tensors, kind, routing, 2)
            assert_same(found, gradients(by_formula, tensors, kind, routing, 2, torch.float64), 1e-4)

    def test_many_equal_gradients_are_added_accurately(self):
        """Adding the same float32 to itself 10,000 times in a row would be wrong in the fourth digit."""
        tensors = draw(normal(), k=2, filters=4, d=1, queries=1, candidates=10_000)
        tensors.candidates[:] = tensors.candidates[0]
        leaves = Tensors(*(x.requires_grad_() for x in tensors))
        (found,) = torch.autograd.grad(by_kernel(leaves, "linear", 1, 2).mul(0.1).sum(), [leaves.weights])
        one = leaves._replace(candidates=leaves.candidates[:1])
        (expected,) = torch.autograd.grad(by_formula(one, "linear", 1, 2).sum() * 1000, [leaves.weights])
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
    def test_a_flaw_shows(self, name, number):
        """The training loop looks for it in the loss."""
        tensors = draw(normal())
        getattr(tensors, name).view(-1)[1] = number
        assert all(by_kernel(tensors, kind, routing, 2).isnan().all() for kind, routing in CASES[1:])


class TestNothingElseMatters:
    @cases
    @pytest.mark.parametrize("threads", [2, 3, 5])
    def test_threads(self, monkeypatch, kind, routing, threads):
        tensors = draw(normal(), d=1 if kind == "linear" else 5)
        expected = gradients(by_kernel, tensors, kind, routing, 2)
        monkeypatch.setattr(cpu, "SMALL", 0)
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
        found = gradients(by_kernel, tensors, kind, routing, 2)
        assert all(ours.equal(same) for ours, same in zip(found, expected, strict=True))

    @cases
    @pytest.mark.parametrize("tile", [1, 7, 64])
    def test_tile_size(self, monkeypatch, kind, routing, tile):
        """Of what is summed over candidates, only the order of the sum changes with the tiles."""
        tensors = draw(normal(), d=1 if kind == "linear" else 5)
        expected = gradients(by_kernel, tensors, kind, routing, 2)
        monkeypatch.setattr(cpu, "TILE", tile)
        found = gradients(by_kernel, tensors, kind, routing, 2)
        assert found[0].equal(expected[0])
        assert found[-1].equal(expected[-1])
        assert_same(found, expected, 1e-5)

    @cases
    @pytest.mark.parametrize("capacity", [20, 200])
    def test_room_for_votes(self, monkeypatch, kind, routing, capacity):
        """Too little for all votes at once: they are made in parts, and again for the gradient."""
        tensors = draw(normal(), d=1 if kind == "linear" else 5)
        expected = gradients(by_kernel, tensors, kind, routing, 2)
        made = []
        real = cpu.votes
        monkeypatch.setattr(cpu, "votes", lambda *call: made.append(real(*call)) or made[-1])
        monkeypatch.setattr(votes, "_CAPACITY", capacity)
        found = gradients(by_kernel, tensors, kind, routing, 2)
        each = tensors.weights.shape[2] * (1 if routing == 1 else len(tensors.weights))
        assert max(part.numel() for part in made) <= max(capacity, each)
        assert_same(found, expected, 1e-5)
        assert len(made) > 1

    def test_one_vector_for_all_queries(self):
        tensors = draw(normal())
        expanded = tensors._replace(second=tensors.second[:1].expand(3, -1))
        found = gradients(by_kernel, tensors._replace(second=tensors.second[:1]), "paper", 1, 2)
        expected = gradients(by_kernel, expanded, "paper", 1, 2)
        expected[NAMES.index("second") + 1] = expected[NAMES.index("second") + 1].sum(0, keepdim=True)
        assert_same(found, expected, 1e-6)

    def test_layouts(self):
        tensors = draw(normal())
        twisted = Tensors(*(x.mT.contiguous().mT if x.ndim > 1 else x for x in tensors))
        found, expected = (gradients(by_kernel, x, "paper", 3, 2) for x in (twisted, tensors))
        assert all(ours.equal(same) for ours, same in zip(found, expected, strict=True))


class TestTensors:
    def test_only_what_wants_a_gradient_gets_one(self):
        tensors = draw(normal())
        tensors.weights.requires_grad_()
        by_kernel(tensors, "paper", 1, 2).sum().backward()
        assert tensors.weights.grad.any()
        assert all(x.grad is None for x in tensors if x is not tensors.weights)

    @pytest.mark.parametrize(("queries", "candidates"), [(0, 5), (3, 0), (0, 0)])
    @pytest.mark.parametrize("routing", [1, 2])
    def test_nothing_to_score(self, queries, candidates, routing):
        tensors = draw(normal(), queries=queries, candidates=candidates)
        found = gradients(by_kernel, tensors, "paper", routing, 2)
        assert found[0].shape == (queries, candidates)
        assert [x.shape for x in found[1:]] == [x.shape for x in tensors]
        assert not any(x.any() for x in found)

    def test_columns_are_sorted_once_a_step_and_not_kept(self, monkeypatch):
        """Both directions and their gradients share them; with the candidates they are gone."""
        sorts = []
        real = cpu.columns.sort_columns
        monkeypatch.setattr(cpu.columns, "sort_columns", lambda *call: sorts.append(1) or real(*call))
        tensors = draw(normal())
        table = torch.nn.Parameter(tensors.candidates)
        before = set(cpu._cache._kept)
        for step in range(3):
            leaves = tensors._replace(candidates=table)
            (by_kernel(leaves, "paper", 1, 2).sum() + by_kernel(leaves, "paper", 1, 0).sum()).backward()
            assert len(sorts) == step + 1
            assert len(set(cpu._cache._kept) - before) == 1
            assert table.grad is not None
            with torch.no_grad():
                table.sub_(0.1 * table.grad)
        del leaves, table
        assert set(cpu._cache._kept) == before


class TestReadOut:
    @cases
    def test_wide_votes_are_rounded_once(self, kind, routing):
        tensors = draw(normal(), d=1 if kind == "linear" else 5)
        stage = stage_of(tensors, kind, routing)
        made = cpu.votes(stage, 2, *tensors[3:])
        scores = reference.read_out(stage, made.double())
        assert scores.dtype == torch.float32
        torch.testing.assert_close(scores, reference.read_out(stage, made), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(scores, cpu.score_candidates(stage, 2, *tensors[3:]), rtol=1e-5, atol=1e-6)
