"""The convolution-and-capsule stage in plain torch: this *is* the formula that every fast kernel must reproduce.

Shapes: k embedding size, N filters, d size of the output capsule; ``...`` any leading dimensions.

    q_i = relu(ω·[h_i, r_i, t_i] + b)           features, the k first-layer capsules u_i ∈ R^N
    û_i = W_i u_i                                predictions, W_i ∈ R^{d×N}
    s   = Σ_i c_i û_i                            with c from dynamic routing
    squash(s) = ‖s‖² / (1 + ‖s‖²) · s / ‖s‖
"""

from __future__ import annotations

import torch
from torch import Tensor

from capse.kernels.stage import Stage


def score(stage: Stage, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
    """The scores (...) of triples given as vectors h, r, t (..., k) that broadcast."""
    vote = summed_predictions if stage.routing == 1 else predictions
    return read_out(stage, vote(first_layer(stage, h, r, t), stage.weights))


def first_layer(stage: Stage, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
    """The capsules u (..., k, N): the features, which the released form squashes."""
    capsules = features(h, r, t, stage.filters, stage.bias)
    return squash(capsules, stage.epsilon) if stage.kind == "released" else capsules


def read_out(stage: Stage, votes: Tensor) -> Tensor:
    """The scores (...) of votes: summed (..., d) where there is one routing iteration, else each one (..., k, d).

    Votes may be wider than the stage's own tensors; the score is then rounded once, before any sigmoid.
    """
    if stage.kind == "linear":
        return votes.squeeze(-1).to(stage.weights.dtype)
    if stage.routing == 1:  # every coupling is scale/k
        return score_capsule(stage, votes * (stage.scale / len(stage.weights)))
    last_only = stage.kind == "released"
    s = route(votes, stage.routing, scale=stage.scale, epsilon=stage.epsilon, last_gradient_only=last_only)
    return score_capsule(stage, s)


def score_capsule(stage: Stage, s: Tensor) -> Tensor:
    """The scores (...) of inputs s (..., d) of the second-layer capsule, rounded like those of `read_out`."""
    if stage.kind == "length":
        lengths = length(s)
    elif stage.kind == "paper":
        square = s.square().sum(-1)
        lengths = square / (1 + square)  # ‖squash(s)‖
    else:
        lengths = length(squash(s, stage.epsilon), stage.epsilon)
    lengths = lengths.to(stage.weights.dtype)
    if stage.gamma is not None:
        lengths = lengths * stage.gamma
    if stage.sigmoid:
        lengths = lengths.sigmoid()
    return -lengths if stage.kind == "released" else lengths


def features(h: Tensor, r: Tensor, t: Tensor, filters: Tensor, bias: Tensor) -> Tensor:
    """The ReLU feature maps: h, r, t (..., k), filters (3, N), bias (N,) to first-layer capsules (..., k, N)."""
    triple = torch.stack(torch.broadcast_tensors(h, r, t), dim=-1)  # A ∈ R^{k×3}, (..., k, 3)
    maps: Tensor = torch.addmm(bias, triple.flatten(0, -2), filters).relu_().unflatten(0, triple.shape[:-1])
    return maps


def squash(vectors: Tensor, epsilon: float = 0.0) -> Tensor:
    """‖s‖²/(1 + ‖s‖²) · s/√(‖s‖² + ε) along the last axis; with ε = 0 written so that it has a derivative at zero."""
    square = vectors.square().sum(-1, keepdim=True)
    if epsilon:
        return vectors * (square / (1 + square) / (square + epsilon).sqrt())
    return vectors * (length(vectors).unsqueeze(-1) / (1 + square))


def length(vectors: Tensor, epsilon: float = 0.0) -> Tensor:
    """√(‖s‖² + ε) along the last axis; with ε = 0 its derivative at zero is zero."""
    if epsilon:
        return (vectors.square().sum(-1) + epsilon).sqrt()
    norm: Tensor = torch.linalg.vector_norm(vectors, dim=-1)
    return norm


def predictions(capsules: Tensor, weights: Tensor) -> Tensor:
    """û_i = W_i u_i: capsules (..., k, N), weights (k, N, d) to (..., k, d)."""
    return torch.einsum("...kn,knd->...kd", capsules, weights)


def summed_predictions(capsules: Tensor, weights: Tensor) -> Tensor:
    """Σ_i W_i u_i as one matrix product: capsules (..., k, N), weights (k, N, d) to (..., d)."""
    return capsules.flatten(-2) @ weights.flatten(0, 1)


def route(votes: Tensor, iterations: int, *, scale: float, epsilon: float, last_gradient_only: bool) -> Tensor:
    """The paper's Algorithm 1: votes û (..., k, d) to the input s (..., d) of the second-layer capsule.

    With ``last_gradient_only`` gradients flow through the last iteration alone, as in the released program.
    """
    agreement_votes = votes.detach() if last_gradient_only else votes
    return torch.einsum("...k,...kd->...d", couplings(agreement_votes, iterations, scale=scale, epsilon=epsilon), votes)


def couplings(votes: Tensor, iterations: int, *, scale: float, epsilon: float) -> Tensor:
    """The last iteration's c = scale·softmax(b) over the k first-layer capsules; b_i grows by û_i·squash(s)."""
    logits = torch.zeros_like(votes[..., 0])  # b, (..., k)
    for _ in range(iterations - 1):
        output = squash(torch.einsum("...k,...kd->...d", scale * logits.softmax(-1), votes), epsilon)
        logits = logits + torch.einsum("...kd,...d->...k", votes, output)
    return scale * logits.softmax(-1)
