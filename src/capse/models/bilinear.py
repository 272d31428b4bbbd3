"""What DistMult and ComplEx have in common: the product of head and relation, matched with the tail."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from capse.models.base import Contributions, ModelSettings, Scorer, check_dropout

_SCORE_DEVIATION = 0.2


@dataclass(frozen=True)
class BilinearSettings(ModelSettings):
    """Settings of DistMult and ComplEx."""

    entity_dropout: float = 0.0  # of the entries of h and t, and of all candidates where they are scored at once
    relation_dropout: float = 0.0  # of the entries of r
    vector_start: Literal["xavier", "normal"] = "xavier"
    """``xavier``: uniform, the narrower the more rows a table has; ``normal`` of one deviation in both tables, with
    which a triple's score has deviation 0.2."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("entity_dropout", "relation_dropout"):
            check_dropout(key, getattr(self, key))


class BilinearScorer(Scorer):
    """f(h, r, t) = ⟨h ∘ r, t⟩ for a commutative product ∘ with an inverse r̄ for each r: ⟨h ∘ r, t⟩ = ⟨t ∘ r̄, h⟩."""

    def __init__(self, settings: BilinearSettings, width: int) -> None:
        super().__init__()
        self.entity_width = self.relation_width = self.floats_per_triple = width
        self.entity_dropout = nn.Dropout(settings.entity_dropout)
        self.relation_dropout = nn.Dropout(settings.relation_dropout)
        self.vector_start = settings.vector_start

    @abstractmethod
    def product(self, entities: Tensor, relations: Tensor) -> Tensor:
        """h ∘ r of vectors (..., width) that broadcast."""

    @abstractmethod
    def inverse(self, relations: Tensor) -> Tensor:
        """r̄"""

    def score_triples(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        h, r, t = self.entity_dropout(h), self.relation_dropout(r), self.entity_dropout(t)
        return (self.product(h, r) * t).sum(-1)

    def initialise(self, entities: Tensor, relations: Tensor) -> None:
        """As any model's; or with ``normal``, as Cai and Wang (NAACL 2018) do."""
        if self.vector_start == "xavier":
            super().initialise(entities, relations)
            return
        deviation = (_SCORE_DEVIATION**2 / self.entity_width) ** (1 / 6)  # of three numbers whose products are summed
        for table in (entities, relations):
            nn.init.normal_(table, std=deviation)

    def contributions(self, h: Tensor, r: Tensor, t: Tensor) -> Contributions:
        return Contributions(self.product(h, r) * t)

    def score_tails(self, h: Tensor, r: Tensor, candidates: Tensor) -> Tensor:
        h, r, candidates = self.entity_dropout(h), self.relation_dropout(r), self.entity_dropout(candidates)
        return self.product(h, r) @ candidates.T

    def score_heads(self, r: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        return self.score_tails(t, self.inverse(r), candidates)

    def score_relations(self, h: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        """∘ commutes, so ⟨h ∘ r, t⟩ = ⟨t ∘ h̄, r⟩: one product with all relations."""
        h, t, candidates = self.entity_dropout(h), self.entity_dropout(t), self.relation_dropout(candidates)
        return self.product(t, self.inverse(h)) @ candidates.T
