"""The one derivative of squash that each device has, against torch's automatic one of the plain formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from capse.kernels.cpu.squash import squash_factor, squash_slope
from capse.kernels.reference import squash

SQUARES = torch.tensor([1e-12, 1e-9, 1e-4, 0.3, 1.0, 7.0, 1e4], dtype=torch.float64)


def by_autograd(epsilon: float) -> tuple[torch.Tensor, torch.Tensor]:
    """f(‖s‖²) and f'(‖s‖²) of squash(s) = f(‖s‖²) s, for vectors of one number: f = squash(s) / s, f' = ∂f/∂s / 2s."""
    s = SQUARES.sqrt().requires_grad_()
    factor = squash(s[:, None], epsilon)[:, 0] / s
    (slope,) = torch.autograd.grad(factor.sum(), s)
    return factor.detach(), slope / (2 * s.detach())


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3])
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-10), (np.float32, 1e-5)])
def test_the_compiled_factor_and_its_derivative(epsilon: float, dtype: type[np.floating], rtol: float) -> None:
    factors, slopes = by_autograd(epsilon)
    for square, factor, slope in zip(SQUARES.tolist(), factors.tolist(), slopes.tolist(), strict=True):
        assert squash_factor(dtype(square), dtype(epsilon)) == pytest.approx(factor, rel=rtol)
        assert squash_slope(dtype(square), dtype(epsilon)) == pytest.approx(slope, rel=rtol, abs=1e-2 * rtol)


def test_both_are_zero_at_zero() -> None:
    assert squash_factor(0.0, 0.0) == squash_slope(0.0, 0.0) == 0
