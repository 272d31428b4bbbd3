"""ConvKB: feature maps of 1×3 filters over [h, r, t], weighted and summed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from capse.kernels import reference, scoring
from capse.kernels.stage import Stage
from capse.models.base import Contributions, ModelSettings, Scorer, check_dropout, check_filters

FilterStart = Literal["normal", "translation", "distance"]
FILTER_SIZE = 0.1  # of the filters' entries at the start
START_NOISE = 0.1  # where the start is a distance, in shares of what it is added to: filters must not stay alike


@dataclass(frozen=True)
class ConvKBSettings(ModelSettings):
    """Settings of ConvKB."""

    filters: int = 50  # N
    filter_start: Literal["normal", "translation"] = "translation"
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
        nn.init.trunc_normal_(self.weights, std=0.1, a=-0.2, b=0.2)
        self.dropout = nn.Dropout(settings.dropout)

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


def start_filters(count: int, start: FilterStart) -> Tensor:
    """Filters (3, N): truncated normal of deviation 0.1, or all of them (0.1, 0.1, −0.1), TransE's x = h + r − t.

    ``distance`` has them in pairs of opposite sign, relu(x) + relu(−x) = |x|, with some noise.
    """
    if start == "normal":
        return nn.init.trunc_normal_(torch.empty(3, count), std=FILTER_SIZE, a=-2 * FILTER_SIZE, b=2 * FILTER_SIZE)
    filters = torch.tensor([FILTER_SIZE, FILTER_SIZE, -FILTER_SIZE])[:, None].repeat(1, count)
    if start == "distance":
        filters[:, 1::2] *= -1
        filters += nn.init.normal_(torch.empty(3, count), std=START_NOISE * FILTER_SIZE)
    return filters
