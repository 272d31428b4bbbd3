"""The fused step of adversarial training (`capse.training.adversary`), in a few kernels where torch needs a hundred.

The generator is DistMult, the discriminator TransE or TransD with L1 and a margin loss, the optimiser Adam. One program
takes a true triple: it scores the candidates, draws one, and adds both models' gradients to tables of gradients, which
the next kernel uses up and leaves at zero. Where triples share rows, the order in which they add is the GPU's, so the
last bits may differ from call to call.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from capse.kernels.adversarial_tables import Tables

ROWS = 32  # of a table that one program changes


def add_gradients(
    discriminator: Tables,
    generator: Tables,
    rows: Tensor,
    baseline: Tensor,
    *,
    candidates: int,
    margin: float,
    share: float,
    projects: bool,
    steps: int,
) -> tuple[Tensor, Tensor]:
    """The margin losses (B,) and the rewards (B,); both models' gradients, times ``share``, are added to theirs.

    ``rows`` (B, 3 + 2 · candidates + 1) are a true triple, its candidates' heads and tails, and a whole number below
    ``steps`` to draw one by. ``projects`` says that the discriminator is TransD.
    """
    losses, rewards = (torch.empty(len(rows), device=rows.device) for _ in range(2))
    width, wide = generator.entities.shape[1], discriminator.entities.shape[1]
    dim = wide // 2 if projects else wide
    sizes = {"C": candidates, "K": dim, "G": width, "PROJECTS": projects}
    blocks = {"BLOCK_C": _power(candidates), "BLOCK_K": _power(dim), "BLOCK_G": _power(width)}
    with torch.cuda.device_of(rows):
        _add_gradients[(len(rows),)](
            *discriminator,
            *generator,
            rows.contiguous(),
            baseline,
            losses,
            rewards,
            margin,
            share,
            steps,
            **sizes,
            **blocks,
        )
    return losses, rewards


def descend(
    table: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    taken: Tensor,
    rate: Tensor,
    *,
    decay: float,
    dim: int,
    pull: int,
) -> None:
    """Adam's step number ``taken``, in place, after which the gradient is zero.

    With ``pull`` = n, every n-th ``dim`` numbers are scaled to length 1 where they are longer; with 0 nothing is.
    """
    count = table.numel() // dim
    with torch.cuda.device_of(table):
        _descend[(triton.cdiv(count, ROWS),)](
            table, gradient, mean, square, taken, rate, decay, count, K=dim, BLOCK_K=_power(dim), PULL=pull, BLOCK=ROWS
        )


def _power(size: int) -> int:
    return max(16, 1 << math.ceil(math.log2(size)))


@triton.jit
def _side(entities, row, K: tl.constexpr, W: tl.constexpr, PROJECTS: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """A vector, its transfer vector x_p, and x_p·x; without projections the latter two are zero."""
    k = tl.arange(0, BLOCK)
    inside = k < K
    vector = tl.load(entities + row * W + k, inside, 0.0)
    transfer = tl.zeros_like(vector)
    if PROJECTS:
        transfer = tl.load(entities + row * W + K + k, inside, 0.0)
    return vector, transfer, tl.sum(transfer * vector, 0)


@triton.jit
def _distance(  # type: ignore[no-untyped-def]
    entities, relations, h, r, t, K: tl.constexpr, W: tl.constexpr, PROJECTS: tl.constexpr, BLOCK: tl.constexpr
):
    """h⊥ + d_r − t⊥ and the sum of its absolute values."""
    k = tl.arange(0, BLOCK)
    x, _, along_x = _side(entities, h, K, W, PROJECTS, BLOCK)
    z, _, along_z = _side(entities, t, K, W, PROJECTS, BLOCK)
    gap = x + tl.load(relations + r * W + k, k < K, 0.0) - z
    if PROJECTS:
        gap += (along_x - along_z) * tl.load(relations + r * W + K + k, k < K, 0.0)
    return gap, tl.sum(tl.abs(gap), 0)


@triton.jit
def _add_distance_gradient(  # type: ignore[no-untyped-def]
    entities, relations, of_entities, of_relations, h, r, t, gap, factor,
    K: tl.constexpr, W: tl.constexpr, PROJECTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add ``factor`` times the derivatives of Σ |gap|."""
    k = tl.arange(0, BLOCK)
    inside = k < K
    slope = factor * (tl.where(gap > 0, 1.0, 0.0) - tl.where(gap < 0, 1.0, 0.0))
    of_h, of_t = slope, -slope
    if PROJECTS:
        x, x_transfer, along_x = _side(entities, h, K, W, PROJECTS, BLOCK)
        z, z_transfer, along_z = _side(entities, t, K, W, PROJECTS, BLOCK)
        along = tl.sum(slope * tl.load(relations + r * W + K + k, inside, 0.0), 0)
        of_h += along * x_transfer
        of_t -= along * z_transfer
        tl.atomic_add(of_entities + h * W + K + k, along * x, inside)
        tl.atomic_add(of_entities + t * W + K + k, -along * z, inside)
        tl.atomic_add(of_relations + r * W + K + k, (along_x - along_z) * slope, inside)
    tl.atomic_add(of_entities + h * W + k, of_h, inside)
    tl.atomic_add(of_entities + t * W + k, of_t, inside)
    tl.atomic_add(of_relations + r * W + k, slope, inside)


@triton.jit
def _add_gradients(  # type: ignore[no-untyped-def]
    d_entities, d_relations, of_d_entities, of_d_relations, g_entities, g_relations, of_g_entities, of_g_relations,
    rows, baseline, losses, rewards, margin, share, steps,
    C: tl.constexpr, K: tl.constexpr, G: tl.constexpr, PROJECTS: tl.constexpr,
    BLOCK_C: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_G: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0)
    W: tl.constexpr = 2 * K if PROJECTS else K
    row = rows + place.to(tl.int64) * (2 * C + 4)
    h, r, t = tl.load(row), tl.load(row + 1), tl.load(row + 2)
    c = tl.arange(0, BLOCK_C)
    valid = c < C
    heads, tails = tl.load(row + 3 + c, valid, 0), tl.load(row + 3 + C + c, valid, 0)
    choice = tl.load(row + 3 + 2 * C)

    # The generator: p = softmax of Σ x y z over the candidates, and the one that is drawn.
    g = tl.arange(0, BLOCK_G)
    inside = g < G
    both = valid[:, None] & inside[None, :]
    x = tl.load(g_entities + heads[:, None] * G + g[None, :], both, 0.0)  # (BLOCK_C, BLOCK_G)
    y = tl.load(g_relations + r * G + g, inside, 0.0)
    z = tl.load(g_entities + tails[:, None] * G + g[None, :], both, 0.0)
    scores = tl.where(valid, tl.sum(x * y[None, :] * z, 1), float("-inf"))
    powers = tl.exp(scores - tl.max(scores, 0))
    p = powers / tl.sum(powers, 0)
    sums = tl.cumsum(p, 0)
    aim = (choice.to(tl.float32) + 0.5) / steps * tl.max(sums, 0)
    drawn = tl.sum(tl.where(valid & (sums < aim), 1, 0), 0)
    is_drawn = c == drawn
    drawn_h, drawn_t = tl.sum(tl.where(is_drawn, heads, 0), 0), tl.sum(tl.where(is_drawn, tails, 0), 0)

    # The discriminator: max(0, margin + d(true) − d(drawn)), and the reward −d(drawn).
    gap, true = _distance(d_entities, d_relations, h, r, t, K, W, PROJECTS, BLOCK_K)
    drawn_gap, wrong = _distance(d_entities, d_relations, drawn_h, r, drawn_t, K, W, PROJECTS, BLOCK_K)
    violation = margin + true - wrong
    tl.store(losses + place, tl.where(violation <= 0, 0.0, violation))  # NaN stays, so that the loss says so
    tl.store(rewards + place, -wrong)
    if violation > 0:
        _add_distance_gradient(
            d_entities, d_relations, of_d_entities, of_d_relations, h, r, t, gap, share, K, W, PROJECTS, BLOCK_K
        )
        _add_distance_gradient(
            d_entities, d_relations, of_d_entities, of_d_relations, drawn_h, r, drawn_t, drawn_gap, -share,
            K, W, PROJECTS, BLOCK_K,
        )  # fmt: skip

    # The generator's gradient: of −(R − b) log p(drawn) in the score of candidate c, −(R − b) ([c drawn] − p_c).
    weight = share * (wrong + tl.load(baseline)) * (tl.where(is_drawn, 1.0, 0.0) - p)
    weight = tl.where(valid, weight, 0.0)[:, None]
    of_x, of_z = weight * y[None, :] * z, weight * x * y[None, :]
    tl.atomic_add(of_g_relations + r * G + g, tl.sum(weight * x * z, 0), inside)
    if tl.sum(tl.where(valid & (heads != h), 1, 0), 0) == 0:  # the side that is kept is one row
        tl.atomic_add(of_g_entities + h * G + g, tl.sum(of_x, 0), inside)
    else:
        tl.atomic_add(of_g_entities + heads[:, None] * G + g[None, :], of_x, both)
    if tl.sum(tl.where(valid & (tails != t), 1, 0), 0) == 0:
        tl.atomic_add(of_g_entities + t * G + g, tl.sum(of_z, 0), inside)
    else:
        tl.atomic_add(of_g_entities + tails[:, None] * G + g[None, :], of_z, both)


@triton.jit
def _descend(  # type: ignore[no-untyped-def]
    table, gradient, mean, square, taken, rate, decay, count,
    K: tl.constexpr, BLOCK_K: tl.constexpr, PULL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, BLOCK_K)
    inside = (number < count)[:, None] & (k < K)[None, :]
    place = number[:, None] * K + k[None, :]
    step = tl.load(taken).to(tl.float64)
    first = 1 - tl.exp(step * tl.full([], -0.10536051565782628, tl.float64))  # 1 − β₁^step, by the logarithm of .9
    second = 1 - tl.exp(step * tl.full([], -0.0010005003335835344, tl.float64))  # and of .999
    size = (tl.load(rate).to(tl.float64) / first).to(tl.float32)
    root = tl.sqrt(second).to(tl.float32)
    x = tl.load(table + place, inside, 0.0)
    g = tl.load(gradient + place, inside, 0.0) + decay * x
    m = tl.load(mean + place, inside, 0.0)
    m += (1 - 0.9) * (g - m)
    v = 0.999 * tl.load(square + place, inside, 0.0) + (1 - 0.999) * g * g
    x -= size * m / (tl.sqrt(v) / root + 1e-8)
    if PULL:
        length = tl.sqrt(tl.sum(x * x, 1))
        pulled = (length > 1) & (number % PULL == 0)
        x = tl.where(pulled[:, None], x / tl.where(length > 1, length, 1.0)[:, None], x)
    tl.store(table + place, x, inside)
    tl.store(mean + place, m, inside)
    tl.store(square + place, v, inside)
    tl.store(gradient + place, tl.zeros_like(x), inside)
