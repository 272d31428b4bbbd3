"""Batch normalisation in kernels of our own, held against torch's. Without a GPU it runs in Triton's interpreter."""

from __future__ import annotations

import os
from unittest.mock import Mock, patch

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from capse.kernels.normalising import by_kernel, normalised
from capse.kernels.scoring import forced

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
INTERPRET = {} if DEVICE == "cuda" else {"TRITON_INTERPRET": "1"}
with patch.dict(os.environ, INTERPRET):  # read when triton is imported, and again when it runs
    pytest.importorskip("triton")
    from capse.kernels.gpu import normalising as kernels

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")  # the compiler's; either will do
shapes = pytest.mark.parametrize("shape", [(4, 3, 2, 5), (2, 1, 1, 1), (7, 1, 6, 6), (2, 33, 3, 1), (9, 2, 10, 27)])


@pytest.fixture(autouse=True)
def interpreter():
    with patch.dict(os.environ, INTERPRET):
        yield


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def batch_norm(channels):
    norm = nn.BatchNorm2d(channels).to(DEVICE)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return norm


def learned(function, norm, x, *, rectify, kept, dtype=torch.float32):
    """The result, the gradients of a weighted sum of it, and what the module remembers."""
    norm.zero_grad()
    leaf = x.to(dtype).requires_grad_()
    y = function(norm, leaf, rectify=rectify, kept=kept)
    (y.float() * normal(*y.shape, seed=5)).sum().backward()
    return [y, leaf.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var]


@shapes
@pytest.mark.parametrize("rectify", [False, True])
@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("programs", [1, 4, kernels.PROGRAMS])  # with few, each adds up several examples
def test_it_is_torchs_batch_normalisation(shape, rectify, drops, programs, monkeypatch):
    monkeypatch.setattr(kernels, "PROGRAMS", programs)
    torch.manual_seed(1)
    x = 3 * normal(*shape) + 2
    kept = nn.functional.dropout(torch.ones(*shape[:2], 1, 1, device=DEVICE), 0.4) if drops else None
    ours, torchs = batch_norm(shape[1]), nn.BatchNorm2d(shape[1]).to(DEVICE)
    torchs.load_state_dict(ours.state_dict())
    got = learned(by_kernel, ours, x, rectify=rectify, kept=kept)
    with forced("reference"):
        wanted = learned(normalised, torchs, x, rectify=rectify, kept=kept)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    assert ours.num_batches_tracked == torchs.num_batches_tracked == 1


def test_bfloat16_stays_bfloat16():
    norm, x = batch_norm(2), normal(4, 2, 3, 3)
    kept = torch.tensor([[0.0, 2.0]] * 4, device=DEVICE)[:, :, None, None]
    got = learned(by_kernel, norm, x, rectify=True, kept=kept.bfloat16(), dtype=torch.bfloat16)[:4]
    wanted = learned(by_kernel, norm, x, rectify=True, kept=kept)[:4]
    assert got[0].dtype == got[1].dtype == torch.bfloat16
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one.float(), other.float(), rtol=0.05, atol=0.1)


@pytest.mark.parametrize("programs", [1, kernels.PROGRAMS])
def test_numbers_far_from_zero_keep_their_variance(programs, monkeypatch):
    monkeypatch.setattr(kernels, "PROGRAMS", programs)
    norm, x = nn.BatchNorm2d(1).to(DEVICE), 3000 + normal(64, 1, 8, 8)
    torch.testing.assert_close(by_kernel(norm, x), norm(x), rtol=0, atol=1e-3)


@pytest.mark.parametrize("shape", [(64, 1, 8, 8), (2, 1, 1, 1)])
def test_equal_numbers_have_no_variance(shape):
    y = by_kernel(nn.BatchNorm2d(1).to(DEVICE), torch.full(shape, 33.3, device=DEVICE))
    assert y.abs().max() < 1e-2


def test_nan_is_not_hidden():
    x = normal(4, 2, 3, 3)
    x[1, 0, 0, 0] = torch.nan
    y = by_kernel(batch_norm(2), x, rectify=True)
    assert y[:, 0].isnan().all()
    assert y[:, 1].isfinite().all()


@pytest.mark.parametrize(
    ("changes", "is_by_kernel"),
    [
        ({}, True),
        ({"training": False}, False),
        ({"dtype": torch.float64}, False),
        ({"device": "cpu"}, False),
        ({"kernel": "reference"}, False),
        ({"side": 91}, False),  # larger than a program holds
    ],
)
def test_when_the_kernels_are_used(changes, is_by_kernel):
    """On tensors without numbers, which can be on a GPU that is not there."""
    case = {"training": True, "dtype": torch.float32, "device": "cuda", "side": 4, "kernel": "auto"} | changes
    with FakeTensorMode(), forced(case["kernel"]), patch("capse.kernels.normalising.by_kernel") as by:
        x = torch.empty(3, 2, case["side"], case["side"], device=case["device"], dtype=case["dtype"])
        normalised(Mock(training=case["training"]), x)
    assert by.called is is_by_kernel


@pytest.mark.skipif(DEVICE == "cpu", reason="the interpreter takes one number after the other")
def test_equal_calls_give_equal_bits():
    x = normal(512, 32, 22, 22)
    torch.manual_seed(1)
    ours = batch_norm(32)
    results = (learned(by_kernel, ours, x, rectify=True, kept=None)[:4] for _ in range(2))
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)
