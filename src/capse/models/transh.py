"""TransH: entities are projected onto a hyperplane of the relation before they are translated."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from capse.models.translation import TranslationScorer, TranslationSettings


@dataclass(frozen=True)
class TransH(TranslationSettings):
    """Settings of TransH."""


class TransHScorer(TranslationScorer):
    """f(h, r, t) = −‖h⊥ + d_r − t⊥‖_p, x⊥ = x − (w_r·x) w_r, ‖w_r‖ = 1.

    A relation is [d_r, w_r], 2k numbers; w_r is normalised where it is used, so the constraint always holds.
    """

    Settings = TransH
    citation = "Wang et al., Knowledge Graph Embedding by Translating on Hyperplanes, AAAI 2014"

    def __init__(self, settings: TransH) -> None:
        super().__init__(settings)
        self.relation_width = 2 * self.dim

    def project_heads(self, h: Tensor, r: Tensor) -> Tensor:
        normal = F.normalize(r[..., self.dim :], dim=-1)
        return h - (h * normal).sum(-1, keepdim=True) * normal
