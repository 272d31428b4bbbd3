"""ComplEx: DistMult over complex numbers, so that relations need not be symmetric."""

from __future__ import annotations

import torch
from torch import Tensor

from capse.models.base import Contributions, ModelSettings, Scorer


class ComplEx(Scorer):
    """f(h, r, t) = Re Σ_i h_i r_i conj(t_i) with h, r, t ∈ C^k.

    k counts complex numbers; a vector is stored as [real parts, imaginary parts], 2k floats.
    """

    Settings = ModelSettings
    citation = "Trouillon et al., Complex Embeddings for Simple Link Prediction, ICML 2016"

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.entity_width = self.relation_width = self.floats_per_triple = 2 * settings.dim

    def score_triples(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        return (_product(h, r) * t).sum(-1)  # Re(x conj(t)) is the real inner product of x and t

    def inverse(self, relations: Tensor) -> Tensor:
        return _conjugate(relations)

    def contributions(self, h: Tensor, r: Tensor, t: Tensor) -> Contributions:
        """Re(h_i r_i conj(t_i)), one for each complex number."""
        return Contributions((_product(h, r) * t).unflatten(-1, (2, -1)).sum(-2))

    def score_tails(self, h: Tensor, r: Tensor, candidates: Tensor) -> Tensor:
        return _product(h, r) @ candidates.T

    def score_heads(self, r: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        return _product(_conjugate(r), t) @ candidates.T  # Re(h r conj(t)) = Re(conj(conj(r) t) h)

    def magnitudes(self, vectors: Tensor) -> Tensor:
        real, imaginary = vectors.chunk(2, dim=-1)
        return torch.hypot(real, imaginary)


def _product(x: Tensor, y: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    c, d = y.chunk(2, dim=-1)
    return torch.cat([a * c - b * d, a * d + b * c], dim=-1)


def _conjugate(x: Tensor) -> Tensor:
    real, imaginary = x.chunk(2, dim=-1)
    return torch.cat([real, -imaginary], dim=-1)
