"""STransE: a relation has one matrix for heads and another for tails."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from capse.models.translation import TranslationScorer, TranslationSettings
from capse.models.transr import apply_matrix


@dataclass(frozen=True)
class STransE(TranslationSettings):
    """Settings of STransE."""


class STransEScorer(TranslationScorer):
    """f(h, r, t) = −‖W_r,1 h + d_r − W_r,2 t‖_p, W_r,1, W_r,2 ∈ R^{k×k}, started as the identity.

    A relation is [d_r, W_r,1, W_r,2], k + 2k² numbers.
    """

    Settings = STransE
    citation = "Nguyen et al., STransE: a novel embedding model of entities and relationships, NAACL 2016"

    def __init__(self, settings: STransE) -> None:
        super().__init__(settings)
        self.relation_width = self.dim + 2 * self.dim**2
        self.floats_per_triple = 2 * self.dim**2

    def project_heads(self, h: Tensor, r: Tensor) -> Tensor:
        return apply_matrix(r[..., self.dim : self.dim + self.dim**2], h, self.dim)

    def project_tails(self, t: Tensor, r: Tensor) -> Tensor:
        return apply_matrix(r[..., self.dim + self.dim**2 :], t, self.dim)

    def initialise(self, entities: Tensor, relations: Tensor) -> None:
        super().initialise(entities, relations)
        relations[:, self.dim :] = torch.eye(self.dim).flatten().repeat(2)
