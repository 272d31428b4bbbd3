"""What ConvKB and the capsule models share: filters over [h, r, t], and the kernels that score by their features."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from capse.kernels import scoring
from capse.kernels.stage import Stage
from capse.models.base import Scorer
from capse.triples import HEAD, RELATION, TAIL

FILTER_SIZE = 0.1  # of the filters' entries at the start


class FeatureMapScorer(Scorer):
    """f(h, r, t) = g(relu([h, r, t] ∗ Ω)) with N filters Ω in R^{1×3}; g is what `stage` says."""

    def __init__(self, dim: int, filters: Tensor) -> None:
        super().__init__()
        self.entity_width = self.relation_width = dim
        self.filters = nn.Parameter(filters)  # (3, N)
        self.bias = nn.Parameter(torch.zeros(filters.shape[1]))

    @abstractmethod
    def stage(self) -> Stage:
        """The model as the kernels see it."""

    def dropped(self, *vectors: Tensor) -> tuple[Tensor, ...]:
        """Vectors with a share of their entries set to zero in training, where a model has such dropout."""
        return vectors

    def score_triples(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        h, r, t = self.dropped(h, r, t)
        return scoring.score_triples(self.stage(), h, r, t)

    def score_tails(self, h: Tensor, r: Tensor, candidates: Tensor) -> Tensor:
        h, r, candidates = self.dropped(h, r, candidates)
        return scoring.score_candidates(self.stage(), TAIL, h, r, candidates)

    def score_heads(self, r: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        r, t, candidates = self.dropped(r, t, candidates)
        return scoring.score_candidates(self.stage(), HEAD, r, t, candidates)

    def score_relations(self, h: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        h, t, candidates = self.dropped(h, t, candidates)
        return scoring.score_candidates(self.stage(), RELATION, h, t, candidates)


def normal_filters(count: int) -> Tensor:
    """Filters (3, N) from a normal distribution of deviation 0.1, cut at two deviations."""
    return nn.init.trunc_normal_(torch.empty(3, count), std=FILTER_SIZE, a=-2 * FILTER_SIZE, b=2 * FILTER_SIZE)


def translation_filters(count: int) -> Tensor:
    """Filters (3, N), all of them (0.1, 0.1, −0.1): TransE's h + r − t."""
    return torch.tensor([FILTER_SIZE, FILTER_SIZE, -FILTER_SIZE])[:, None].repeat(1, count)
