"""Scores by way of the votes û that a kernel makes and takes gradients of; what follows the votes is plain torch.

Only where nobody wants a gradient are they routed by a kernel, on a GPU. There plain torch's dozen passes over the
votes of each iteration would take most of the time.

Votes take d numbers per query and candidate, with routing k·d. Where all of them would need too much memory they are
made in parts, and where a gradient is wanted made again for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from capse.kernels import workspace
from capse.kernels.reference import read_out, score_capsule
from capse.kernels.stage import Gradients, Stage

_CAPACITY, _GPU_CAPACITY = workspace.CPU, workspace.GPU // 2  # floats that the votes of one part may take


def score_by_votes(stage: Stage, slot: int, first: Tensor, second: Tensor, candidates: Tensor) -> Tensor:
    """Scores (B, C) of candidates (C, k) in a slot of [h, r, t]; ``first`` and ``second`` (B, k) fill the other two.

    They have gradients in all of these and in the stage's tensors. If one holds NaN or infinity, all scores are NaN.
    """
    first, second = torch.broadcast_tensors(first, second)
    wants_gradient = stage.wants_gradient(first, second, candidates)
    capacity = _GPU_CAPACITY if _on_gpu(candidates) else _CAPACITY
    k, _, d = stage.weights.shape
    each = d if stage.routing == 1 else k * d
    most_queries, most_candidates = max(1, capacity // max(1, len(candidates) * each)), max(1, capacity // each)

    def part(first: Tensor, second: Tensor, candidates: Tensor) -> Tensor:
        votes = make_votes(stage, slot, first, second, candidates)
        return read_out(stage, votes) if wants_gradient else _read_out(stage, votes)

    def part_again(*tensors: Tensor) -> Tensor:
        if not wants_gradient:
            return part(*tensors)
        scores: Tensor = checkpoint(part, *tensors, use_reentrant=False, preserve_rng_state=False)
        return scores

    if len(first) <= most_queries and len(candidates) <= most_candidates:
        scores = part(first, second, candidates)
    else:
        chunks = candidates.split(most_candidates) if most_candidates < len(candidates) else [candidates]
        known = zip(first.split(most_queries), second.split(most_queries), strict=True)
        scores = torch.cat([torch.cat([part_again(*pair, chunk) for chunk in chunks], dim=1) for pair in known])
    return scores + _flaw(*stage.tensors.values(), first, second, candidates)


def _read_out(stage: Stage, votes: Tensor) -> Tensor:
    """`read_out` in float64 and without a gradient."""
    if stage.routing > 1 and _on_gpu(votes):
        return score_capsule(stage, _kernel(votes).route(stage, votes))
    return read_out(stage, votes.double())


def _flaw(*tensors: Tensor) -> Tensor:
    """NaN if there is NaN or infinity in a tensor, else 0. Kernels may look past them, and a GPU is not waited for."""
    return sum((0 * bound for x in tensors if x.numel() for bound in x.detach().aminmax()), torch.zeros(()))


def make_votes(stage: Stage, slot: int, first: Tensor, second: Tensor, candidates: Tensor) -> Tensor:
    """û summed over dimensions, (B, C, d), where there is one routing iteration, else each of them, (B, C, k, d)."""
    tensors = stage.filters, stage.bias, stage.weights
    votes: Tensor = _Votes.apply(stage, slot, first, second, candidates, *tensors)  # type: ignore[no-untyped-call]
    return votes


class _Votes(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        stage: Stage,
        slot: int,
        first: Tensor,
        second: Tensor,
        candidates: Tensor,
        filters: Tensor,
        bias: Tensor,
        weights: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(first, second, candidates, filters, bias, weights)
        ctx.stage, ctx.slot = stage, slot
        votes: Tensor = _kernel(candidates).votes(stage, slot, first, second, candidates)
        return votes

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        first, second, candidates, filters, bias, weights = ctx.saved_tensors
        stage = replace(ctx.stage, filters=filters, bias=bias, weights=weights)
        gradients: Gradients = _kernel(candidates).votes_gradient(stage, ctx.slot, first, second, candidates, gradient)
        return None, None, *gradients


def _kernel(tensor: Tensor) -> Any:
    """The package that does it where the tensor is, imported here since it loads numba or Triton."""
    if _on_gpu(tensor):
        from capse.kernels import gpu

        return gpu
    from capse.kernels import cpu

    return cpu


def _on_gpu(tensor: Tensor) -> bool:
    return tensor.device.type == "cuda"
