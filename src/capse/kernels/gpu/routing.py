"""Dynamic routing, all iterations in registers: each candidate's votes û_i ∈ R^d are read once.

    b_i = û_i·v,  v the sum of all outputs so far          agreement
    c   = scale·softmax(b)                                 couplings, all of them scale/k at first
    s   = Σ_i c_i û_i                                      v then grows by squash(s)

A program routes one candidate, and all of them do the same in the same order: equal votes give equal bits.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from capse.kernels.gpu.squash import squash_factor
from capse.kernels.reference import route as plain_route
from capse.kernels.stage import Stage

SHARE = 2048  # numbers that a warp holds: 64 float64s in each thread's registers
MOST_WARPS = 16  # with these, a few of them are kept in memory


def route(stage: Stage, votes: Tensor) -> Tensor:
    """See `capse.kernels.gpu.route`."""
    queries, size, k, d = votes.shape
    lanes, rows = triton.next_power_of_2(d), triton.next_power_of_2(k)
    if lanes * rows > SHARE * MOST_WARPS:
        return plain_route(
            votes.double(), stage.routing, scale=stage.scale, epsilon=stage.epsilon, last_gradient_only=False
        )
    result = votes.new_empty(queries, size, d, dtype=torch.float64)
    if result.numel():
        _route[(queries * size,)](
            votes.contiguous(),
            result,
            stage.routing,
            1,
            K=k,
            D=d,
            ROWS=rows,
            LANES=lanes,
            SCALE=stage.scale,
            EPSILON=stage.epsilon,
            num_warps=max(1, lanes * rows // SHARE),
        )
    return result


@triton.jit(do_not_specialize=["step"])
def _route(  # type: ignore[no-untyped-def]
    votes,
    result,
    m,
    step,
    K: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    LANES: tl.constexpr,
    SCALE: tl.constexpr,
    EPSILON: tl.constexpr,
):
    """One candidate's votes (K, D) to s (D,), in m iterations.

    A vote's numbers are ``step`` apart, which is 1, but the compiler must not know: it would spread them over threads,
    each of which would then compute the same exponentials, and sums along them would leave the registers.
    """
    candidate = tl.program_id(0).to(tl.int64)
    lane, i = tl.arange(0, LANES), tl.arange(0, ROWS)
    inside = (lane < D)[:, None] & (i < K)[None, :]
    place = votes + candidate * (K * D) + lane[:, None] * step + i[None, :] * D
    u = tl.load(place, inside, 0.0).to(tl.float64)
    scale = tl.full([], SCALE, tl.float64)
    s = tl.sum(u, 1) * (scale / K)
    v = tl.zeros([LANES], tl.float64)
    for _ in range(1, m):
        v += s * squash_factor(tl.sum(s * s, 0), EPSILON)
        b = tl.where(i < K, tl.sum(u * v[:, None], 0), float("-inf"))
        c = tl.exp(b - tl.max(b, 0))
        s = tl.sum(u * c[None, :], 1) * (scale / tl.sum(c, 0))
    tl.store(result + candidate * D + lane, s, lane < D)
