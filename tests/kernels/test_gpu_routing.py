"""Routing in one kernel, compared with the plain formula in float64. Without a GPU it runs in Triton's interpreter."""

from __future__ import annotations

import os
from dataclasses import replace
from unittest.mock import patch

import pytest
import torch

from capse.kernels import reference, votes
from capse.kernels.stage import Stage
from capse.triples import HEAD, RELATION, TAIL

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
INTERPRET = {} if DEVICE == "cuda" else {"TRITON_INTERPRET": "1"}
with patch.dict(os.environ, INTERPRET):  # read when triton is imported, and again when it runs
    pytest.importorskip("triton")
    from capse.kernels import gpu
    from capse.kernels.gpu import routing

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # the interpreter's, of 0/0 in lanes that are masked
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),  # the compiler's; either will do
]
kinds = pytest.mark.parametrize("kind", ["length", "paper", "released"])
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@pytest.fixture(scope="module", autouse=True)
def interpreter():
    with patch.dict(os.environ, INTERPRET):
        yield


def normal(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE, dtype)


def stage(kind="paper", m=3, *, k=5, d=3, dtype=torch.float32, scale=1.0, sigmoid=False):
    filters, bias, weights = (normal(*shape, dtype=dtype) for shape in ((3, 7), (7,), (k, 7, d)))
    return Stage(filters, bias, weights, kind, m, scale, 1e-9 if kind == "released" else 0.0, sigmoid)


def plain(stage, votes):
    options = {"scale": stage.scale, "epsilon": stage.epsilon, "last_gradient_only": False}
    return reference.route(votes.double(), stage.routing, **options)


def agree(ours, exact):
    torch.testing.assert_close(ours, exact, rtol=1e-12, atol=1e-12 * exact.abs().max().item())


class TestAgainstThePlainFormula:
    @kinds
    @dtypes
    @pytest.mark.parametrize("m", [2, 3, 7])
    @pytest.mark.parametrize("sigmoid", [False, True])
    def test_the_vector_and_its_score(self, kind, dtype, m, sigmoid):
        form = stage(kind, m, dtype=dtype, scale=5.0 if kind == "released" else 0.3, sigmoid=sigmoid)
        made = normal(2, 4, 5, 3, dtype=dtype)
        ours = gpu.route(form, made)
        assert ours.dtype == torch.float64
        agree(ours, plain(form, made))
        torch.testing.assert_close(reference.score_capsule(form, ours), reference.read_out(form, made.double()))

    @pytest.mark.parametrize(("k", "d"), [(1, 1), (1, 3), (2, 1), (7, 5), (8, 4), (9, 17), (33, 2), (100, 10)])
    def test_any_size(self, k, d):
        form, made = stage(k=k, d=d, scale=0.7), normal(1, 3, k, d)
        agree(gpu.route(form, made), plain(form, made))

    def test_too_much_for_registers(self, monkeypatch):
        form, made = stage(), normal(1, 3, 5, 3)
        monkeypatch.setattr(routing, "SHARE", 1)
        assert gpu.route(form, made).equal(plain(form, made))

    def test_agreement_beyond_what_exp_can_hold(self):
        """Logits of thousands, all positive or all negative: a softmax knows only their differences."""
        form, made = stage("released", 5), 100 * normal(2, 4, 5, 3)
        made[1, :, :, 0] -= 1000
        ours = gpu.route(form, made)
        assert ours.isfinite().all()
        agree(ours, plain(form, made))

    def test_sliced_votes(self):
        form, made = stage(), normal(4, 6, 5, 3)
        assert gpu.route(form, made[::2, ::3]).equal(gpu.route(form, made)[::2, ::3])

    @pytest.mark.parametrize(("queries", "candidates"), [(0, 5), (3, 0), (0, 0)])
    def test_nothing_to_route(self, queries, candidates):
        assert gpu.route(stage(), normal(queries, candidates, 5, 3)).shape == (queries, candidates, 3)


class TestTies:
    @kinds
    def test_zero_votes_stay_zero(self, kind):
        made = normal(1, 4, 5, 3)
        made[0, 1:3] = 0
        made[0, 2] = -0.0
        ours = gpu.route(stage(kind, scale=5.0), made)
        assert not ours[0, 1:3].any()
        assert ours[0, [0, 3]].all()

    @kinds
    def test_equal_votes_wherever_they_stand(self, kind):
        form, few = stage(kind, k=9), normal(1, 3, 9, 3)
        which = torch.randint(3, (20,), generator=torch.Generator().manual_seed(0))
        assert gpu.route(form, few[:, which]).equal(gpu.route(form, few)[:, which])


class TestScores:
    @pytest.fixture
    def routed(self, monkeypatch):
        """How often the kernel was called. On a CPU its tensors are taken for those of a GPU."""
        calls, real = [], gpu.route
        monkeypatch.setattr(gpu, "route", lambda *call: calls.append(1) or real(*call))
        monkeypatch.setattr(votes, "_on_gpu", lambda tensor: True)
        return calls

    @kinds
    @pytest.mark.parametrize("slot", [HEAD, RELATION, TAIL])
    @pytest.mark.parametrize("capacity", [2**20, 40])
    def test_those_of_the_formula(self, routed, monkeypatch, kind, slot, capacity):
        """With capacity for all votes at once, and in parts."""
        monkeypatch.setattr(votes, "_GPU_CAPACITY", capacity)
        form, first, second, candidates = stage(kind), *(normal(n, 5, seed=n) for n in (2, 2, 4))
        triple = [first[:, None], second[:, None]]
        triple.insert(slot, candidates)
        wide = replace(form, **{name: tensor.double() for name, tensor in form.tensors.items()})
        exact = reference.score(wide, *(x.double() for x in triple))
        ours = votes.score_by_votes(form, slot, first, second, candidates)
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=1e-6)
        assert len(routed) == (1 if capacity > 40 else 4)

    def test_with_a_gradient_routing_is_plain(self, routed):
        form, first, second, candidates = stage(), *(normal(n, 5, seed=n) for n in (2, 2, 4))
        votes.score_by_votes(form, TAIL, first, second, candidates.requires_grad_()).sum().backward()
        assert candidates.grad.any()
        assert not routed
