"""DistMult: a bilinear form with a diagonal matrix per relation."""

from __future__ import annotations

from torch import Tensor

from capse.kernels import fused
from capse.models.base import Contributions, ModelSettings, Scorer


class DistMult(Scorer):
    """f(h, r, t) = Σ_i h_i r_i t_i with h, r, t ∈ R^k."""

    Settings = ModelSettings
    citation = "Yang et al., Embedding Entities and Relations for Learning and Inference in Knowledge Bases, ICLR 2015"

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.entity_width = self.relation_width = self.floats_per_triple = settings.dim

    def score_triples(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        return (h * r * t).sum(-1)

    def inverse(self, relations: Tensor) -> Tensor:
        return relations

    def contributions(self, h: Tensor, r: Tensor, t: Tensor) -> Contributions:
        return Contributions(h * r * t)

    def score_rows(
        self, entities: Tensor, relations: Tensor, heads: Tensor, relation_ids: Tensor, tails: Tensor
    ) -> Tensor | None:
        if not fused.is_usable(entities):
            return None
        return fused.score_triples(fused.PRODUCT, entities, relations, heads, relation_ids, tails)

    def score_tails(self, h: Tensor, r: Tensor, candidates: Tensor) -> Tensor:
        return (h * r) @ candidates.T

    def score_heads(self, r: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        return (r * t) @ candidates.T
