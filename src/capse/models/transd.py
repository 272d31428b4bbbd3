"""TransD: projection matrices built from one vector of the entity and one of the relation."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from capse.models.translation import TranslationScorer, TranslationSettings


@dataclass(frozen=True)
class TransD(TranslationSettings):
    """Settings of TransD."""


class TransDScorer(TranslationScorer):
    """f(h, r, t) = −‖h⊥ + d_r − t⊥‖_p, x⊥ = (r_p x_pᵀ + I) x = x + (x_p·x) r_p.

    An entity is [x, x_p] and a relation [d_r, r_p], 2k numbers each; entities and relations share k.
    """

    Settings = TransD
    citation = "Ji et al., Knowledge Graph Embedding via Dynamic Mapping Matrix, ACL 2015"

    def __init__(self, settings: TransD) -> None:
        super().__init__(settings)
        self.entity_width = self.relation_width = 2 * self.dim

    def project_heads(self, h: Tensor, r: Tensor) -> Tensor:
        vector, transfer = h[..., : self.dim], h[..., self.dim :]
        return vector + (transfer * vector).sum(-1, keepdim=True) * r[..., self.dim :]
