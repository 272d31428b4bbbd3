"""Squash in compiled loops: what it multiplies a vector by, and the derivative of that.

    squash(s) = f(‖s‖²) s,    f(x) = x / ((1 + x) √(x + ε)),     f'(x) = (1/(1 + x) − x/(2(x + ε))) / ((1 + x) √(x + ε))

The gradient of f(‖u‖²) û, û = W u, in u is then f Wᵀg + 2 f' (g·û) u.
"""

from __future__ import annotations

import math

from capse.kernels.cpu.loops import inlined


@inlined
def squash_factor(square, epsilon):  # type: ignore[no-untyped-def]
    """f(‖s‖²), and 0 at 0."""
    if square == 0:
        return square
    return square / ((type(square)(1) + square) * math.sqrt(square + epsilon))


@inlined
def squash_slope(square, epsilon):  # type: ignore[no-untyped-def]
    """f'(‖s‖²), and 0 at 0, where no filter is on and nothing is passed on."""
    if square == 0:
        return square
    one, under = type(square)(1), square + epsilon
    return (one / (one + square) - square / (2 * under)) / ((one + square) * math.sqrt(under))
