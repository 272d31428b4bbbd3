"""The GPU's votes and gradients, compared with the plain formula's. Without a GPU they run in Triton's interpreter."""

from __future__ import annotations

import os
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from capse.kernels import reference
from capse.kernels.stage import Gradients, Stage
from capse.triples import HEAD, RELATION, TAIL

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
INTERPRET = {} if DEVICE == "cuda" else {"TRITON_INTERPRET": "1"}
with patch.dict(os.environ, INTERPRET):  # read when triton is imported, and again when it runs
    pytest.importorskip("triton")
    from capse.kernels import gpu
    from capse.kernels.gpu import lookup, tables

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # the interpreter's, of lanes that are masked
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),  # the compiler's; either will do
]
examples = settings(max_examples=8)
forms = pytest.mark.parametrize("form", [("paper", 1), ("paper", 3), ("released", 1), ("released", 3)], ids=str)
slots = pytest.mark.parametrize("slot", [HEAD, RELATION, TAIL])


@pytest.fixture(scope="module", autouse=True)
def interpreter():
    with patch.dict(os.environ, INTERPRET):
        yield


def draw(*, queries=2, candidates=40, k=2, filters=7, d=3, dtype=torch.float32, seed=0, whole=False):
    """first, second, candidates, filters, bias and weights."""
    generator = torch.Generator().manual_seed(seed)
    shapes = (queries, k), (queries, k), (candidates, k), (3, filters), (filters,), (k, filters, d)
    if whole:
        numbers = (torch.randint(-2, 3, shape, generator=generator) for shape in shapes)
    else:
        numbers = (torch.randn(shape, generator=generator) for shape in shapes)
    return [tensor.to(DEVICE, dtype) for tensor in numbers]


def stage(tensors, kind="paper", routing=1, epsilon=1e-9):
    filters, bias, weights = tensors[3:]
    return Stage(filters, bias, weights, kind, routing, epsilon=epsilon)


def votes(form, slot, tensors):
    return gpu.votes(stage(tensors, *form), slot, *tensors[:3])


def votes_gradient(form, slot, tensors, gradient):
    first, second, candidates = tensors[:3]
    return gpu.votes_gradient(stage(tensors, *form), slot, first, second, candidates, gradient)


def plain(form, slot, tensors):
    first, second, candidates, filters, bias, weights = tensors
    triple = [first[:, None], second[:, None]]
    triple.insert(slot, candidates[None])
    h, r, t = triple
    capsules = reference.features(h, r, t, filters, bias)
    if form[0] == "released":
        capsules = reference.squash(capsules, 1e-9)
    return (reference.summed_predictions if form[1] == 1 else reference.predictions)(capsules, weights)


def plain_with_gradients(form, slot, tensors, gradient):
    wide = [tensor.double().requires_grad_() for tensor in tensors]
    exact = plain(form, slot, wide)
    return exact.detach(), Gradients(*torch.autograd.grad(exact, wide, gradient.double()))


def summands(form, slot, tensors, gradient):
    """What votes and gradients would be if nothing cancelled: sums of absolute values, which errors are measured by.

    A sum is as accurate as its terms allow, and not more accurate for being small: squash of a large u is nearly u/‖u‖,
    so that what u's growth adds to it is nearly taken back by that of ‖u‖.
    """
    signed = [tensor.double() for tensor in tensors]
    wide = [tensor.abs().requires_grad_() for tensor in signed]

    def features(tensors):
        triple = [tensors[0][:, None], tensors[1][:, None]]
        triple.insert(slot, tensors[2][None])
        return sum(x[..., None] * y for x, y in zip(triple, tensors[3], strict=True)) + tensors[4]  # (B, C, k, N)

    is_on = features(signed) > 0
    capsules = features(wide) * is_on
    if form[0] == "released":
        q = (features(signed) * is_on).square().sum(-1, keepdim=True).requires_grad_()
        factor = q / (1 + q) / (q + 1e-9).sqrt()
        (slope,) = torch.autograd.grad(factor.sum(), q)
        largest = capsules.square().sum(-1, keepdim=True)
        capsules = capsules * factor.detach() + capsules.detach() * slope.abs() * (largest - largest.detach())
    votes = (reference.summed_predictions if form[1] == 1 else reference.predictions)(capsules, wide[5])
    return votes.detach(), Gradients(*torch.autograd.grad(votes, wide, gradient.double().abs()))


def agree(ours, exact, tolerance, scale):
    largest = scale.abs().max().item() if scale.numel() else 0.0
    torch.testing.assert_close(ours.double(), exact, rtol=0, atol=tolerance * largest + 1e-30)


def check(form, slot, tensors):
    tolerance = 1e-6 if tensors[0].dtype == torch.float32 else 1e-13
    ours = votes(form, slot, tensors)
    gradient = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1), dtype=ours.dtype).to(DEVICE)
    exact, exact_gradients = plain_with_gradients(form, slot, tensors, gradient)
    scale, scales = summands(form, slot, tensors, gradient)
    agree(ours, exact, tolerance, scale)
    gradients = votes_gradient(form, slot, tensors, gradient)
    for tensor, our, true, largest in zip(tensors, gradients, exact_gradients, scales, strict=True):
        assert our.dtype == tensor.dtype
        assert our.shape == tensor.shape
        agree(our, true, 3 * tolerance, largest)


class TestAgainstThePlainFormula:
    @forms
    @slots
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_votes_and_gradients(self, form, slot, dtype):
        tensors = draw(queries=1, dtype=dtype)
        tensors[3][slot, :2] = 0
        check(form, slot, tensors)

    @given(data=st.data())
    @examples
    def test_any_shape_and_any_signs(self, data):
        sizes = {"queries": 2, "candidates": 20, "k": 6, "filters": 7, "d": 6}
        tensors = draw(
            **{name: data.draw(st.integers(1, most), name) for name, most in sizes.items()},
            dtype=data.draw(st.sampled_from([torch.float32, torch.float64])),
            seed=data.draw(st.integers(0, 99)),
        )
        slot = data.draw(st.sampled_from([HEAD, RELATION, TAIL]))
        candidates, filters, bias = tensors[2:5]
        match data.draw(st.sampled_from(["mixed", "all on", "all off", "rising", "falling", "blind", "zeros"])):
            case "all on":
                bias += 50
            case "all off":
                bias -= 50
            case "rising":
                filters[slot].abs_()
            case "falling":
                filters[slot].abs_().neg_()
            case "blind":
                filters[slot] = 0
            case "zeros":
                candidates[::2] = -0.0
                filters[:, ::3] = 0
        form = data.draw(st.sampled_from(["linear", "paper", "released"])), data.draw(st.sampled_from([1, 2]))
        check(form, slot, tensors)

    @given(seed=st.integers(0, 99), slot=st.sampled_from([HEAD, RELATION, TAIL]))
    @examples
    def test_exact_where_float32_is_on_breakpoints_too(self, seed, slot):
        """With whole numbers many candidates are on breakpoints, where a filter is off and has no derivative."""
        tensors = draw(queries=1, candidates=12, k=1, filters=5, seed=seed, whole=True)
        gradient = torch.randint(-2, 3, (1, 12, 3), generator=torch.Generator().manual_seed(seed)).to(tensors[0])
        exact, exact_gradients = plain_with_gradients(("paper", 1), slot, tensors, gradient)
        assert votes(("paper", 1), slot, tensors).double().equal(exact)
        for ours, true in zip(votes_gradient((), slot, tensors, gradient), exact_gradients, strict=True):
            assert ours.double().equal(true)

    @pytest.mark.parametrize("form", [("linear", 1), ("released", 1)], ids=str)
    @pytest.mark.parametrize("sizes", [{"d": 1, "filters": 1, "k": 1}, {"d": 33, "queries": 1, "filters": 3}], ids=str)
    def test_thin_and_wide(self, form, sizes):
        check(form, TAIL, draw(**sizes))

    @pytest.mark.parametrize(("queries", "candidates"), [(0, 5), (3, 0), (0, 0)])
    @forms
    def test_nothing_to_score(self, form, queries, candidates):
        check(form, TAIL, draw(queries=queries, candidates=candidates))


class TestTies:
    @forms
    @slots
    def test_all_filters_off(self, form, slot):
        """Then only those that do not see the candidate count."""
        tensors = draw(filters=12)
        tensors[3][slot, ::2] = 0
        tensors[4][1::2] = -100
        ours = votes(form, slot, tensors)
        assert (ours == ours[:, :1]).all()
        assert ours.any()

    @forms
    def test_equal_vectors_and_signs_of_zero(self, form):
        tensors = draw(candidates=3)
        tensors[2][1] = 0
        which = torch.randint(3, (30,), generator=torch.Generator().manual_seed(0))
        few = votes(form, TAIL, tensors)
        tensors[2][1] = -0.0
        tensors[2] = tensors[2][which]
        assert votes(form, TAIL, tensors).equal(few[:, which])

    def test_filters_that_turn_off_leave_nothing_behind(self):
        tensors = draw(candidates=30, filters=12)
        tensors[3][TAIL].abs_().neg_()
        tensors[2][:] = 1000 + tensors[2].abs()
        assert not votes(("paper", 1), TAIL, tensors).any()


class TestNothingElseMatters:
    @pytest.mark.parametrize("form", [("paper", 1), ("released", 3)], ids=str)
    def test_blocks_tiles_and_chunks(self, monkeypatch, form):
        tensors = draw(queries=2, candidates=9, filters=13)
        ours = votes(form, TAIL, tensors)
        monkeypatch.setattr(tables, "BLOCK", 16)
        monkeypatch.setattr(tables, "TABLE_BYTES", 1)
        monkeypatch.setattr(lookup, "TILE", 8)
        assert votes(form, TAIL, tensors).equal(ours)
        check(form, TAIL, tensors)

    def test_layouts(self):
        """Transposed and sliced tensors, and one relation for all heads."""
        first, second, candidates, *parameters = draw(queries=4)
        parameters[2] = parameters[2].transpose(1, 2).contiguous().transpose(1, 2)
        ours = votes(("paper", 1), TAIL, [first[::2], second[:1], candidates.T.contiguous().T[::3], *parameters])
        whole = votes(("paper", 1), TAIL, [first, second[:1].expand_as(first), candidates, *parameters])
        assert ours.equal(whole[::2, ::3])

    def test_equal_calls_give_equal_bits(self):
        tensors = draw(queries=1)
        gradient = votes(("paper", 1), TAIL, tensors)
        first, again = (votes_gradient((), TAIL, tensors, gradient) for _ in range(2))
        assert all(one.equal(other) for one, other in zip(first, again, strict=True))
