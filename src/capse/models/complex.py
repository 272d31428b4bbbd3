"""ComplEx: DistMult over complex numbers, so that relations need not be symmetric."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from capse.models.base import Contributions
from capse.models.bilinear import BilinearScorer, BilinearSettings


@dataclass(frozen=True)
class ComplEx(BilinearSettings):
    """Settings of ComplEx."""


class ComplExScorer(BilinearScorer):
    """f(h, r, t) = Re Σ_i h_i r_i conj(t_i) with h, r, t ∈ C^k.

    k counts complex numbers; a vector is stored as [real parts, imaginary parts], 2k floats. Re(x conj(t)) is the real
    inner product of x and t.
    """

    Settings = ComplEx
    citation = "Trouillon et al., Complex Embeddings for Simple Link Prediction, ICML 2016"

    def __init__(self, settings: ComplEx) -> None:
        super().__init__(settings, width=2 * settings.dim)

    def product(self, entities: Tensor, relations: Tensor) -> Tensor:
        a, b = entities.chunk(2, dim=-1)
        c, d = relations.chunk(2, dim=-1)
        return torch.cat([a * c - b * d, a * d + b * c], dim=-1)

    def inverse(self, relations: Tensor) -> Tensor:
        """The conjugate: Re(h r conj(t)) = Re(t conj(r) conj(h))."""
        real, imaginary = relations.chunk(2, dim=-1)
        return torch.cat([real, -imaginary], dim=-1)

    def contributions(self, h: Tensor, r: Tensor, t: Tensor) -> Contributions:
        """Re(h_i r_i conj(t_i)), one for each complex number."""
        return Contributions(super().contributions(h, r, t).values.unflatten(-1, (2, -1)).sum(-2))

    def magnitudes(self, vectors: Tensor) -> Tensor:
        real, imaginary = vectors.chunk(2, dim=-1)
        return torch.hypot(real, imaginary)
