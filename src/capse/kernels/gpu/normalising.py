"""Batch normalisation, ReLU and dropout of channels together, for few channels that are large.

    μ_c, σ²_c  over all of a batch's numbers in channel c
    x̂ = (x − μ_c)/√(σ²_c + ε),  y = max(0, x̂ w_c + b_c) · kept_nc

cuDNN gives each channel one block of threads, so 32 channels leave three quarters of a GPU idle. Here a channel's
numbers are shared out among programs, and what they add up is added up once more, in a fixed order.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

PROGRAMS = 2048  # enough to keep every multiprocessor at work
WARP_SHARE = 256  # numbers of a channel for each warp of a program


class Normalised(torch.autograd.Function):
    """x (N, C, S), w (C,), b (C,), kept (N, C, ...) or None -> y (N, C, S), μ (C,), σ² (C,)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, kept: Tensor | None, epsilon: float, rectify: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        x = x.contiguous()
        count, channels, size = x.shape
        sums = x.new_empty(2, channels, _shares(x), dtype=torch.float32)
        _run(_sums, x, sums, by_channel=True)
        offset, square = sums.sum(-1, dtype=torch.float64) / (count * size)
        mean, variance = x[0, :, 0] + offset, (square - offset * offset).clamp_min(0)
        table = torch.stack([mean, (variance + epsilon).rsqrt(), weight, bias]).float()
        y = torch.empty_like(x)
        _run(_apply, x, table, x if kept is None else kept, y, KEPT=kept is not None, RECTIFY=rectify)
        ctx.save_for_backward(x, table, kept)
        ctx.rectify = rectify
        mean, variance = mean.float(), variance.float()
        ctx.mark_non_differentiable(mean, variance)
        return y, mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, *unused: Tensor) -> tuple[Tensor | None, ...]:
        x, table, kept = ctx.saved_tensors
        count, channels, size = x.shape
        flags = {"KEPT": kept is not None, "RECTIFY": ctx.rectify}
        known = (x, table, x if kept is None else kept, gradient.contiguous())
        sums = x.new_empty(2, channels, _shares(x), dtype=torch.float32)
        _run(_gradient_sums, *known, sums, by_channel=True, **flags)
        of_bias, of_weight = sums.sum(-1)
        of_x = torch.empty_like(x)
        _run(_gradient, *known, torch.stack([of_bias, of_weight]) / (count * size), of_x, **flags)
        return of_x, of_weight, of_bias, None, None, None


def _shares(x: Tensor) -> int:
    """The number of programs that add up a channel."""
    return max(1, min(x.shape[0], PROGRAMS // x.shape[1]))


def _run(kernel: Any, x: Tensor, *others: Tensor, by_channel: bool = False, **flags: bool) -> None:
    """A program for each share of a channel, or for each channel of each example."""
    count, channels, size = x.shape
    block = triton.next_power_of_2(size)
    grid = (channels, _shares(x)) if by_channel else (count * channels,)
    warps = max(1, min(16, block // WARP_SHARE))
    with torch.cuda.device_of(x):
        kernel[grid](x, *others, count, channels, size, BLOCK=block, num_warps=warps, **flags)


@triton.jit
def _sums(x, sums, count, channels, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Σ (x − x₀) and Σ (x − x₀)² of a share of a channel; x₀ is its first number, and keeps them small."""
    channel, share, shares = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.num_programs(1)
    lane = tl.arange(0, BLOCK)
    first = tl.load(x + channel * size).to(tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    square = tl.zeros([BLOCK], tl.float32)
    for n in range(share, count, shares):
        place = (n * channels + channel) * size + lane
        value = tl.where(lane < size, tl.load(x + place, lane < size, 0.0).to(tl.float32) - first, 0.0)
        total += value
        square += value * value
    tl.store(sums + channel * shares + share, tl.sum(total, 0))
    tl.store(sums + (channels + channel) * shares + share, tl.sum(square, 0))


@triton.jit
def _apply(  # type: ignore[no-untyped-def]
    x, table, kept, y, count, channels, size, BLOCK: tl.constexpr, KEPT: tl.constexpr, RECTIFY: tl.constexpr
):
    """y of one channel of one example."""
    row = tl.program_id(0).to(tl.int64)
    channel = (row % channels).to(tl.int32)
    lane = tl.arange(0, BLOCK)
    normal = _normalised(x, table, row, channel, channels, size, lane)
    result = normal * tl.load(table + 2 * channels + channel) + tl.load(table + 3 * channels + channel)
    if RECTIFY:
        result = tl.where(result < 0, 0.0, result)  # NaN stays NaN, as in torch
    if KEPT:
        result *= tl.load(kept + row)
    tl.store(y + row * size + lane, result.to(y.dtype.element_ty), lane < size)


@triton.jit
def _gradient_sums(  # type: ignore[no-untyped-def]
    x, table, kept, gradient, sums, count, channels, size,
    BLOCK: tl.constexpr, KEPT: tl.constexpr, RECTIFY: tl.constexpr,
):  # fmt: skip
    """Σ g and Σ g x̂ of a share of a channel, g the gradient of x̂ w + b."""
    channel, share, shares = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.num_programs(1)
    lane = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    along = tl.zeros([BLOCK], tl.float32)
    for n in range(share, count, shares):
        row = n * channels + channel
        normal = _normalised(x, table, row, channel, channels, size, lane)
        g = _before_dropout(normal, table, kept, gradient, row, channel, channels, size, lane, KEPT, RECTIFY)
        total += g
        along += g * normal
    tl.store(sums + channel * shares + share, tl.sum(total, 0))
    tl.store(sums + (channels + channel) * shares + share, tl.sum(along, 0))


@triton.jit
def _gradient(  # type: ignore[no-untyped-def]
    x, table, kept, gradient, means, of_x, count, channels, size,
    BLOCK: tl.constexpr, KEPT: tl.constexpr, RECTIFY: tl.constexpr,
):  # fmt: skip
    """x's gradient w/σ (g − mean(g) − x̂ mean(g x̂)), of one channel of one example."""
    row = tl.program_id(0).to(tl.int64)
    channel = (row % channels).to(tl.int32)
    lane = tl.arange(0, BLOCK)
    normal = _normalised(x, table, row, channel, channels, size, lane)
    g = _before_dropout(normal, table, kept, gradient, row, channel, channels, size, lane, KEPT, RECTIFY)
    g -= tl.load(means + channel) + normal * tl.load(means + channels + channel)
    factor = tl.load(table + channels + channel) * tl.load(table + 2 * channels + channel)
    tl.store(of_x + row * size + lane, (g * factor).to(of_x.dtype.element_ty), lane < size)


@triton.jit
def _normalised(x, table, row, channel, channels, size, lane):  # type: ignore[no-untyped-def]
    """x̂; ``table`` has μ, 1/σ, w and b of every channel."""
    value = tl.load(x + row * size + lane, lane < size, 0.0).to(tl.float32)
    return (value - tl.load(table + channel)) * tl.load(table + channels + channel)


@triton.jit
def _before_dropout(  # type: ignore[no-untyped-def]
    normal, table, kept, gradient, row, channel, channels, size, lane, KEPT: tl.constexpr, RECTIFY: tl.constexpr
):
    """g; zero outside the channel."""
    g = tl.load(gradient + row * size + lane, lane < size, 0.0).to(tl.float32)
    if KEPT:
        g *= tl.load(kept + row)
    if RECTIFY:
        weight, bias = tl.load(table + 2 * channels + channel), tl.load(table + 3 * channels + channel)
        g = tl.where(normal * weight + bias > 0, g, 0.0)
    return g
