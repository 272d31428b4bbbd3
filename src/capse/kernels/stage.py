"""The convolution-and-capsule stage of a model, as the kernels see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from capse.errors import DivergenceError


@dataclass(frozen=True)
class Stage:
    """What turns [h, r, t] into a score: filters, the map from their features, and what becomes of its result s ∈ R^d.

    ``linear``: s itself, d = 1. ``length``: γ‖s‖. ``paper``: ‖squash(s)‖. ``released``: −√(‖squash(s)‖² + ε), the u_i
    squashed too, and gradients through the last iteration of routing alone.
    """

    filters: Tensor  # (3, N)
    bias: Tensor  # (N,)
    weights: Tensor  # W_i transposed, (k, N, d)
    kind: Literal["linear", "length", "paper", "released"]
    routing: int = 1  # m
    scale: float = 1.0  # couplings are scale·softmax
    epsilon: float = 0.0  # under the roots of squash
    sigmoid: bool = False  # of the length, in the tensors' own precision
    gamma: Tensor | None = None  # γ, of ``length`` alone; 1 where it is not given

    @property
    def tensors(self) -> dict[str, Tensor]:
        gamma = {} if self.gamma is None else {"scale": self.gamma}
        return {"filters": self.filters, "bias": self.bias, "weights": self.weights, **gamma}

    def wants_gradient(self, *tensors: Tensor) -> bool:
        """Whether one is wanted of a score that is made of this stage and of ``tensors``."""
        return torch.is_grad_enabled() and any(x.requires_grad for x in (*self.tensors.values(), *tensors))


def floats_per_triple(k: int, n: int, d: int) -> int:
    """Temporaries of the plain formula: the features, twice, the votes, twice, and [h, r, t]."""
    return k * (2 * n + 2 * d + 3)


class Gradients(NamedTuple):
    """Of a scalar, with regard to what the votes of B queries and C candidates are made of."""

    first: Tensor  # (B, k)
    second: Tensor  # (B, k)
    candidates: Tensor  # (C, k)
    filters: Tensor  # (3, N)
    bias: Tensor  # (N,)
    weights: Tensor  # (k, N, d)


def require_finite(name: str, tensor: Tensor) -> None:
    if tensor.numel() and not all(bound.isfinite() for bound in tensor.aminmax()):  # NaN is its own minimum and maximum
        raise DivergenceError(
            f"the model has NaN or infinity in its {name}",
            "its training diverged; lower the learning rate and train it again",
        )
