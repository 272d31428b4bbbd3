"""DistMult: a bilinear form with a diagonal matrix per relation."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from capse.kernels import fused
from capse.models.bilinear import BilinearScorer, BilinearSettings


@dataclass(frozen=True)
class DistMult(BilinearSettings):
    """Settings of DistMult."""


class DistMultScorer(BilinearScorer):
    """f(h, r, t) = Σ_i h_i r_i t_i with h, r, t ∈ R^k."""

    Settings = DistMult
    citation = "Yang et al., Embedding Entities and Relations for Learning and Inference in Knowledge Bases, ICLR 2015"

    def __init__(self, settings: DistMult) -> None:
        super().__init__(settings, width=settings.dim)
        self.drops_out = bool(settings.entity_dropout or settings.relation_dropout)

    def product(self, entities: Tensor, relations: Tensor) -> Tensor:
        return entities * relations

    def inverse(self, relations: Tensor) -> Tensor:
        return relations

    def score_rows(
        self, entities: Tensor, relations: Tensor, heads: Tensor, relation_ids: Tensor, tails: Tensor
    ) -> Tensor | None:
        if not fused.is_usable(entities) or (self.training and self.drops_out):
            return None
        return fused.score_triples(fused.PRODUCT, entities, relations, heads, relation_ids, tails)
