"""ConvKB: feature maps of 1×3 filters over [h, r, t], weighted and summed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from capse.kernels import reference, scoring
from capse.kernels.stage import Stage
from capse.models.base import Contributions, ModelSettings, Scorer, check_dropout, check_filters
from capse.models.starts import start_filters


@dataclass(frozen=True)
class ConvKBSettings(ModelSettings):
    """Settings of ConvKB."""

    filters: int = 50  # N
    filter_start: Literal["normal", "translation"] = "translation"
    weight_start: Literal["xavier", "normal"] = "xavier"  # w: uniform in ±√(6/(kN + 1)), or truncated normal of 0.1
    dropout: float = 0.0  # of the feature maps' entries

    def __post_init__(self) -> None:
        super().__post_init__()
        check_filters(self.filters)
        check_dropout("dropout", self.dropout)


class ConvKB(Scorer):
    """f(h, r, t) = concat(relu([h, r, t] ∗ Ω))·w with N filters in R^{1×3} and w ∈ R^{kN}.

    Its authors give valid triples the lower f; here the sign is in w, and higher is better as everywhere.
    """

    Settings = ConvKBSettings
    citation = "Nguyen et al., A Novel Embedding Model for Knowledge Base Completion Based on CNN, NAACL 2018"

    def __init__(self, settings: ConvKBSettings) -> None:
        super().__init__()
        self.entity_width = self.relation_width = settings.dim
        self.floats_per_triple = 2 * settings.dim * settings.filters
        self.filters = nn.Parameter(start_filters(settings.filters, settings.filter_start))  # (3, N)
        self.bias = nn.Parameter(torch.zeros(settings.filters))
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
        if not (self.training and self.dropout.p):
            return scoring.score_triples(self._stage(), h, r, t)
        features = self.dropout(reference.features(h, r, t, self.filters, self.bias))
        return reference.summed_predictions(features, self.weights.unsqueeze(-1)).squeeze(-1)

    def contributions(self, h: Tensor, r: Tensor, t: Tensor) -> Contributions:
        """Σ_n q_n,i w_n,i for dimension i: the summands of the dot product, those of all filters together."""
        return Contributions((reference.features(h, r, t, self.filters, self.bias) * self.weights).sum(-1))

    def score_tails(self, h: Tensor, r: Tensor, candidates: Tensor) -> Tensor:
        if self.training and self.dropout.p:
            return super().score_tails(h, r, candidates)
        return scoring.score_tails(self._stage(), h, r, candidates, super().score_tails)

    def score_heads(self, r: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        if self.training and self.dropout.p:
            return super().score_heads(r, t, candidates)
        return scoring.score_heads(self._stage(), r, t, candidates, super().score_heads)

    def _stage(self) -> Stage:
        return Stage(self.filters, self.bias, self.weights.unsqueeze(-1), kind="linear")
