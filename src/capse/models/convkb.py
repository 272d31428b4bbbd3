"""ConvKB: feature maps of 1×3 filters over [h, r, t], weighted and summed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from capse.kernels import reference
from capse.kernels.stage import Stage, floats_per_triple
from capse.models.base import Contributions, ModelSettings, Scorer, check_dropout, check_filters
from capse.models.feature_maps import FeatureMapScorer, normal_filters, translation_filters


@dataclass(frozen=True)
class ConvKB(ModelSettings):
    """Settings of ConvKB."""

    filters: int = 50  # N
    filter_start: Literal["normal", "translation"] = "translation"  # all (0.1, 0.1, −0.1), or truncated normal of 0.1
    weight_start: Literal["xavier", "normal"] = "xavier"  # w: uniform in ±√(6/(kN + 1)), or truncated normal of 0.1
    dropout: float = 0.0  # of the feature maps' entries

    def __post_init__(self) -> None:
        super().__post_init__()
        check_filters(self.filters)
        check_dropout("dropout", self.dropout)


class ConvKBScorer(FeatureMapScorer):
    """f(h, r, t) = concat(relu([h, r, t] ∗ Ω))·w with N filters in R^{1×3} and w ∈ R^{kN}.

    Its authors give valid triples the lower f; here the sign is in w, and higher is better as everywhere.
    """

    Settings = ConvKB
    citation = "Nguyen et al., A Novel Embedding Model for Knowledge Base Completion Based on CNN, NAACL 2018"

    wants_start = True

    def __init__(self, settings: ConvKB) -> None:
        start = translation_filters if settings.filter_start == "translation" else normal_filters
        super().__init__(settings.dim, start(settings.filters))
        self.floats_per_triple = floats_per_triple(settings.dim, settings.filters, 1)
        self.weights = nn.Parameter(torch.empty(settings.dim, settings.filters))  # w, (k, N)
        if settings.weight_start == "xavier":
            bound = math.sqrt(6 / (self.weights.numel() + 1))
            nn.init.uniform_(self.weights, -bound, bound)
        else:
            nn.init.trunc_normal_(self.weights, std=0.1, a=-0.2, b=0.2)
        self.dropout = nn.Dropout(settings.dropout)

    def penalised(self) -> list[Tensor]:
        """w, and not the filters: λ/2 ‖w‖² in its paper."""
        return [self.weights]

    def score_triples(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        if not self._drops_features:
            return super().score_triples(h, r, t)
        features = self.dropout(reference.features(h, r, t, self.filters, self.bias))
        return reference.summed_predictions(features, self.weights.unsqueeze(-1)).squeeze(-1)

    def contributions(self, h: Tensor, r: Tensor, t: Tensor) -> Contributions:
        """Σ_n q_n,i w_n,i for dimension i: the summands of the dot product, those of all filters together."""
        return Contributions((reference.features(h, r, t, self.filters, self.bias) * self.weights).sum(-1))

    def score_tails(self, h: Tensor, r: Tensor, candidates: Tensor) -> Tensor:
        if self._drops_features:
            return Scorer.score_tails(self, h, r, candidates)
        return super().score_tails(h, r, candidates)

    def score_heads(self, r: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        if self._drops_features:
            return Scorer.score_heads(self, r, t, candidates)
        return super().score_heads(r, t, candidates)

    def score_relations(self, h: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        if self._drops_features:
            return Scorer.score_relations(self, h, t, candidates)
        return super().score_relations(h, t, candidates)

    @property
    def _drops_features(self) -> bool:
        """Whether the features themselves are needed, which no kernel shows."""
        return self.training and self.dropout.p > 0

    def stage(self) -> Stage:
        return Stage(self.filters, self.bias, self.weights.unsqueeze(-1), kind="linear")
