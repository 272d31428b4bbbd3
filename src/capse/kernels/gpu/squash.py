"""Squash in Triton: what it multiplies a vector by, and the derivative of that (see `capse.kernels.cpu.squash`)."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def squash_factor(square, EPSILON: tl.constexpr):  # type: ignore[no-untyped-def]
    """What squash multiplies a vector of this squared length by: ‖s‖² / (1 + ‖s‖²) / √(‖s‖² + ε), and 0 at 0."""
    epsilon = tl.full([], EPSILON, square.dtype)
    factor = square / ((1 + square) * tl.sqrt(square + epsilon))
    return tl.where(square > 0, factor, 0.0)


@triton.jit
def squash_slope(square, EPSILON: tl.constexpr):  # type: ignore[no-untyped-def]
    """The derivative of `squash_factor` in ‖s‖²; at 0 no filter is on, and nothing is passed on."""
    under = square + tl.full([], EPSILON, square.dtype)
    slope = (1 / (1 + square) - 0.5 * square / under) / ((1 + square) * tl.sqrt(under))
    return tl.where(square > 0, slope, 0.0)
