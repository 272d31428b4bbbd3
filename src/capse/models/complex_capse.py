"""Capsules that begin as ComplEx: complex products, squashed where they are small, beside a distance.

Ours, not the paper's. Its first layer has two kinds of filters over [h, r, t]. Those that multiply turn the complex
numbers of a dimension into a vote Re(h_i r_i conj(t_i)); pairs of ReLU filters turn the real numbers of other
dimensions into a vote |h_j + r_j − t_j|. Votes of a kind add up to an output capsule. The products' is squashed as in
CapsE, so that sums too small to mean anything do not count, but without its ceiling of 1; the distance then decides.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from capse.errors import SettingsError
from capse.kernels.distances import pairwise_distances
from capse.models.base import Contributions, ModelSettings, Scorer, check_dropout
from capse.models.complex import ComplEx, ComplExScorer
from capse.models.transe import TransE, TransEScorer


@dataclass(frozen=True)
class ComplexCapsE(ModelSettings):
    """Settings of capsules that begin as ComplEx; ``dim`` counts complex numbers."""

    distance_dims: int = 0  # D, real numbers after those that are multiplied, whose distance counts too
    distance_weight: float = 0.5  # w, how much it counts
    threshold: float = 3.0  # θ, the sum of products that squash halves; 0 leaves products as they are
    dropout: float = 0.0  # of the entries of h, r and t

    def __post_init__(self) -> None:
        super().__post_init__()
        check_dropout("dropout", self.dropout)
        for key in ("distance_dims", "distance_weight", "threshold"):
            if getattr(self, key) < 0:
                raise SettingsError(f"model.{key} is {getattr(self, key)}", "choose 0 or more")


class ComplexCapsEScorer(Scorer):
    """f(h, r, t) = squash(p) − w Σ_j |x_j + y_j − z_j|, p = Re Σ_i h_i r_i conj(t_i), squash(p) = p³ / (θ² + p²).

    A vector is [real parts, imaginary parts, distance], 2k + D numbers; x, y, z are the last D of h, r and t. Far above
    θ squash(p) is p, and without a distance the ranks are ComplEx's for every θ.
    """

    Settings = ComplexCapsE
    citation = (
        "Nguyen et al., A Capsule Network-based Embedding Model for Knowledge Graph Completion and Search "
        "Personalization, NAACL 2019; Trouillon et al., Complex Embeddings for Simple Link Prediction, ICML 2016"
    )

    def __init__(self, settings: ComplexCapsE) -> None:
        super().__init__()
        self.products = ComplExScorer(ComplEx(dim=settings.dim))
        self.distances = TransEScorer(TransE(dim=max(1, settings.distance_dims)))
        self.products_width = 2 * settings.dim
        self.blocks = tuple(width for width in (self.products_width, settings.distance_dims) if width)
        self.entity_width = self.relation_width = self.floats_per_triple = sum(self.blocks)
        self.weight, self.threshold = settings.distance_weight, settings.threshold
        self.dropout = torch.nn.Dropout(settings.dropout)

    def score_triples(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        (h, x), (r, y), (t, z) = (self._parts(vector) for vector in (h, r, t))
        return self._joined(self.products.score_triples(h, r, t), (x + y - z).abs().sum(-1))

    def score_tails(self, h: Tensor, r: Tensor, candidates: Tensor) -> Tensor:
        (h, x), (r, y), (t, z) = (self._parts(vector) for vector in (h, r, candidates))
        return self._joined(self.products.score_tails(h, r, t), self._distances(x + y, z))

    def score_heads(self, r: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        (r, y), (t, z), (h, x) = (self._parts(vector) for vector in (r, t, candidates))
        return self._joined(self.products.score_heads(r, t, h), self._distances(z - y, x))

    def score_relations(self, h: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        (h, x), (t, z), (r, y) = (self._parts(vector) for vector in (h, t, candidates))
        return self._joined(self.products.score_relations(h, t, r), self._distances(z - x, y))

    def contributions(self, h: Tensor, r: Tensor, t: Tensor) -> Contributions:
        """Of each product its share in the squashed sum, then each distance: (..., k + D)."""
        (h, x), (r, y), (t, z) = (self._parts(vector) for vector in (h, r, t))
        votes = self.products.contributions(h, r, t).values
        kept = self._kept(votes.sum(-1, keepdim=True))
        return Contributions(torch.cat([kept * votes, -self.weight * (x + y - z).abs()], dim=-1))

    def inverse(self, relations: Tensor) -> Tensor:
        """f(h, r, t) = f(t, r̄, h): the conjugate for the products, the way back for the distance."""
        first, last = relations.tensor_split([self.products_width], dim=-1)
        return torch.cat([self.products.inverse(first), -last], dim=-1)

    @torch.no_grad()
    def initialise(self, entities: Tensor, relations: Tensor) -> None:
        width = self.products_width
        self.products.initialise(entities[:, :width], relations[:, :width])
        if width < self.entity_width:
            self.distances.initialise(entities[:, width:], relations[:, width:])

    def magnitudes(self, vectors: Tensor) -> Tensor:
        """Of the complex numbers: the penalty is ComplEx's, and distances are left alone."""
        return self.products.magnitudes(vectors[..., : self.products_width])

    def _parts(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        first, last = self.dropout(vectors).tensor_split([self.products_width], dim=-1)
        return first, last

    @staticmethod
    def _distances(queries: Tensor, candidates: Tensor) -> Tensor:
        if not queries.shape[1]:
            return queries.new_zeros(1, 1)
        return pairwise_distances(queries, candidates)

    def _joined(self, products: Tensor, distances: Tensor) -> Tensor:
        return self._kept(products) * products - self.weight * distances

    def _kept(self, products: Tensor) -> Tensor:
        """The share of a sum that squash leaves, p² / (θ² + p²)."""
        if not self.threshold:
            return torch.ones_like(products)
        squares = products.square()
        return squares / (self.threshold**2 + squares)
