"""Every candidate's votes, exactly, and their gradients, on a GPU: the method of `capse.kernels.cpu` in Triton.

tables     queries' dimensions as tables over the pieces between their breakpoints
lookup     each candidate's piece in every dimension, and its votes
routing    from the dimensions' votes to the one vector that is scored
squash     its factor and the derivative of that
gradient   sums over the candidates that a filter sees, along sorted columns

Sums run in a fixed order, so equal calls give equal bits. With ``TRITON_INTERPRET=1`` it all runs on a CPU, slowly.
"""

from __future__ import annotations

import torch
from torch import Tensor

from capse.kernels.gpu import gradient as backward
from capse.kernels.gpu import lookup, routing
from capse.kernels.stage import Gradients, Stage


@torch.no_grad()
def votes(stage: Stage, slot: int, first: Tensor, second: Tensor, candidates: Tensor) -> Tensor:
    """û of candidates (C, k) in a slot of [h, r, t], ``first`` and ``second`` (B, k) in the other two.

    Their sum over dimensions, (B, C, d), where ``stage.routing`` is 1; else each dimension's, (B, C, k, d).
    """
    with torch.cuda.device_of(candidates):
        return lookup.votes(stage, slot, *_known(first, second), candidates)


@torch.no_grad()
def route(stage: Stage, votes: Tensor) -> Tensor:
    """s (B, C, d) in float64, by ``stage.routing`` iterations of dynamic routing of votes (B, C, k, d)."""
    with torch.cuda.device_of(votes):
        return routing.route(stage, votes)


@torch.no_grad()
def votes_gradient(
    stage: Stage, slot: int, first: Tensor, second: Tensor, candidates: Tensor, gradient: Tensor
) -> Gradients:
    """The gradients of all that `votes` is made of, given its result's."""
    with torch.cuda.device_of(candidates):
        return backward.votes_gradient(stage, slot, *_known(first, second), candidates, gradient.contiguous())


def _known(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    first, second = torch.broadcast_tensors(first, second)
    return first.contiguous(), second.contiguous()
