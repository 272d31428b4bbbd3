"""TransE: f(h, r, t) = −‖h + r − t‖_p."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from capse.kernels import fused
from capse.kernels.distances import pairwise_distances
from capse.models.translation import TranslationScorer, TranslationSettings


@dataclass(frozen=True)
class TransE(TranslationSettings):
    """Settings of TransE."""


class TransEScorer(TranslationScorer):
    """f(h, r, t) = −‖h + r − t‖_p with h, r, t ∈ R^k."""

    Settings = TransE
    citation = "Bordes et al., Translating Embeddings for Modeling Multi-relational Data, NeurIPS 2013"

    def inverse(self, relations: Tensor) -> Tensor:
        return -relations

    def score_rows(
        self, entities: Tensor, relations: Tensor, heads: Tensor, relation_ids: Tensor, tails: Tensor
    ) -> Tensor | None:
        if not fused.is_usable(entities):
            return None
        kind = fused.DISTANCE if self.norm == 1 else fused.EUCLIDEAN
        return fused.score_triples(kind, entities, relations, heads, relation_ids, tails)

    def _compare(self, targets: Tensor, r: Tensor, candidates: Tensor, *, heads: bool) -> Tensor:
        # Every relation sees the candidates alike, so one call serves the whole batch.
        return -pairwise_distances(targets, candidates, self.norm)

    def score_relations(self, h: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        return -pairwise_distances(t - h, candidates, self.norm)
