"""TransR: every relation has a space of its own, reached by a matrix."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from capse.models.translation import TranslationScorer, TranslationSettings


@dataclass(frozen=True)
class TransR(TranslationSettings):
    """Settings of TransR."""


class TransRScorer(TranslationScorer):
    """f(h, r, t) = −‖M_r h + d_r − M_r t‖_p, M_r ∈ R^{k×k}, started as the identity.

    A relation is [d_r, M_r], k + k² numbers.
    """

    Settings = TransR
    citation = "Lin et al., Learning Entity and Relation Embeddings for Knowledge Graph Completion, AAAI 2015"

    def __init__(self, settings: TransR) -> None:
        super().__init__(settings)
        self.relation_width = self.dim + self.dim**2
        self.floats_per_triple = self.dim**2

    def project_heads(self, h: Tensor, r: Tensor) -> Tensor:
        return apply_matrix(r[..., self.dim :], h, self.dim)

    def initialise(self, entities: Tensor, relations: Tensor) -> None:
        super().initialise(entities, relations)
        relations[:, self.dim :] = torch.eye(self.dim).flatten()


def apply_matrix(matrix: Tensor, vector: Tensor, dim: int) -> Tensor:
    """M x for matrices given flat (..., k·k) and vectors (..., k); one matrix for many vectors is a matrix product."""
    matrix = matrix.unflatten(-1, (dim, dim))
    if matrix.dim() == 2:
        return vector @ matrix.T
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)
