"""CapsE: a capsule network over the feature maps of 1×3 filters on [h, r, t]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from capse.errors import SettingsError
from capse.kernels import reference, scoring
from capse.kernels.stage import Stage
from capse.models.base import Contributions, ModelSettings, Scorer, check_dropout, check_filters
from capse.models.starts import (
    FILTER_SIZE,
    FILTERS_PER_KNOT,
    PRODUCT_NOISE,
    START_NOISE,
    FilterStart,
    product_filters,
    start_filters,
)

_RELEASED_EPSILON = 1e-9
_OTHER_FILTERS = 3  # beside a product's: one that is always on, and two for a distance
_LIFT = 30.0  # what it adds to the largest distance: a length cannot fall below zero, and a sum of products can


@dataclass(frozen=True)
class CapsESettings(ModelSettings):
    """Settings of CapsE; the defaults are the paper's."""

    filters: int = 50  # N
    capsule_dim: int = 10  # d, the size of the output capsule
    routing: int = 1  # m, routing iterations
    variant: Literal["paper", "released", "scaled"] = "paper"
    filter_start: FilterStart = "normal"  # distance, product: the scaled form starts near TransE's score, or DistMult's
    distance_dims: int = 0  # where filter_start is product: the last so many dimensions start as a distance
    distance_weight: float = 0.5  # how much that distance counts beside the product
    readout: Literal["length", "sigmoid"] = "length"  # sigmoid: rank by float32 sigmoids, as the released program does
    dropout: float = 0.0  # of the entries of h, r and t

    def __post_init__(self) -> None:
        super().__post_init__()
        check_filters(self.filters)
        check_dropout("dropout", self.dropout)
        least = {"distance": 2, "product": _OTHER_FILTERS + 2 * FILTERS_PER_KNOT}.get(self.filter_start)
        if least is not None and (self.variant != "scaled" or self.filters < least):
            raise SettingsError(
                f"model.filter_start is {self.filter_start!r}, which needs {least} filters and variant 'scaled'",
                "set them so, or choose normal or translation",
            )
        if self.distance_dims and self.filter_start != "product":
            raise SettingsError(
                f"model.distance_dims is {self.distance_dims} and model.filter_start {self.filter_start!r}",
                "set model.filter_start=product, or leave it out",
            )
        if not 0 <= self.distance_dims < self.dim:
            raise SettingsError(
                f"model.distance_dims is {self.distance_dims}", f"choose 0 to {self.dim - 1}: model.dim is {self.dim}"
            )
        if self.distance_weight < 0:
            raise SettingsError(f"model.distance_weight is {self.distance_weight}", "choose 0 or more")
        if self.capsule_dim < 1:
            raise SettingsError(f"model.capsule_dim is {self.capsule_dim}", "choose a size of 1 or more")
        if self.routing < 1:
            raise SettingsError(f"model.routing is {self.routing}", "choose 1 iteration or more")


class CapsE(Scorer):
    """f(h, r, t) = ‖capsnet(relu([h, r, t] ∗ Ω))‖, the length of one output capsule in R^d.

    With u_i ∈ R^N the i-th entries of all N feature maps, û_i = W_i u_i, s = Σ_i c_i û_i and e = squash(s), the score
    is ‖e‖ = ‖s‖²/(1 + ‖s‖²). The couplings c start at 1/k each and are refined by m − 1 rounds of routing.

    ``variant: released`` is the authors' program: u_i squashed too, c k times as large, gradients through the last
    routing iteration only, and *shorter* output capsules for valid triples, so the score is −√(‖e‖² + 1e-9).

    ``variant: scaled`` is ours, for training against many candidates: γ‖s‖ with a learned γ. Squash keeps every score
    below 1, and a softmax over thousands of candidates needs them further apart than that. With ``filter_start:
    distance`` it starts near −‖h + r − t‖₁, TransE's score: shorter vectors are then the valid ones. With
    ``filter_start: product`` it starts near a constant plus Σ_i h_i r_i t_i, DistMult's score, less the distance in the
    last dimensions where ``distance_dims`` says so: it then begins as two models added up.
    """

    Settings = CapsESettings
    citation = (
        "Nguyen et al., A Capsule Network-based Embedding Model for Knowledge Graph Completion and Search "
        "Personalization, NAACL 2019"
    )

    def __init__(self, settings: CapsESettings) -> None:
        super().__init__()
        k, n, d = settings.dim, settings.filters, settings.capsule_dim
        self.entity_width = self.relation_width = k
        self.floats_per_triple = k * (2 * n + 2 * d + 3)
        self.routing = settings.routing
        self.released = settings.variant == "released"
        self.scale = nn.Parameter(torch.tensor(float(k))) if settings.variant == "scaled" else None  # γ
        self.dropout = nn.Dropout(settings.dropout)
        self.readout = settings.readout
        self.rounds_scores = settings.readout == "sigmoid"
        self.filters = nn.Parameter(start_filters(n, settings.filter_start))  # (3, N)
        self.bias = nn.Parameter(torch.zeros(n))
        self.weights = nn.Parameter(torch.empty(k, n, d))  # W_i transposed, (k, N, d)
        self.distance_dims, self.distance_weight = settings.distance_dims, settings.distance_weight
        self.starts_as_product = settings.filter_start == "product"
        if settings.filter_start == "distance":
            self._start_as_distance()
        elif self.starts_as_product:  # `adapt` does the rest
            nn.init.normal_(self.weights, std=PRODUCT_NOISE)
        else:
            # The paper's form divides by k in the couplings and squares the length in squash: it needs a larger start.
            nn.init.normal_(self.weights, std=0.01 if self.released else 1.0)

    @torch.no_grad()
    def _start_as_distance(self) -> None:
        """γ‖s‖ = −Σ_i |h_i + r_i − t_i|, up to noise: all features add up along the output capsule's first axis."""
        k, n, _ = self.weights.shape
        each = 1 / (FILTER_SIZE * (n // 2))
        nn.init.normal_(self.weights, std=START_NOISE * each)
        self.weights[:, : n // 2 * 2, 0] += each
        assert self.scale is not None
        self.scale.fill_(-k)

    @torch.no_grad()
    def adapt(self, entities: Tensor, relations: Tensor) -> None:
        """γ‖s‖ = constant + Σ_i h_i r_i t_i − weight·Σ_j |h_j + r_j − t_j|, up to noise; j are the last dimensions.

        Everything adds up along the output capsule's first axis. A product is drawn best where the numbers are about 1,
        so the filters divide by the size that the vectors have.
        """
        if not self.starts_as_product:
            return
        k, n, _ = self.weights.shape
        products = k - self.distance_dims
        x, y = (table[:, :products].square().mean().sqrt() for table in (entities, relations))
        filters, biases, weights = product_filters((n - _OTHER_FILTERS) // FILTERS_PER_KNOT)
        count = len(biases)
        self.filters[:, :count] += filters / torch.stack([x, y, x])[:, None]
        self.bias[:count] = biases
        self.weights.mul_(x * x * y)
        self.weights[:products, :count, 0] += x * x * y * weights
        self.filters[:, count : count + _OTHER_FILTERS] = torch.tensor([[0.0, 1, -1], [0, 1, -1], [0, -1, 1]])
        self.bias[count] = 1
        longest, longest_relation = (table[:, products:].abs().sum(1).max() for table in (entities, relations))
        self.weights[:, count, 0] = (_LIFT + self.distance_weight * (2 * longest + longest_relation)) / k
        self.weights[products:, count + 1 : count + _OTHER_FILTERS, 0] = -self.distance_weight

    def score_triples(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        return self._scaled(scoring.score_triples(self._stage(), self.dropout(h), self.dropout(r), self.dropout(t)))

    def contributions(self, h: Tensor, r: Tensor, t: Tensor) -> Contributions:
        """The part of each first-layer capsule in the output's length: a_i = c_i û_i·s/‖s‖, so Σ_i a_i = ‖s‖.

        The couplings c are the last ones of the routing. The paper's score rises with ‖s‖; the released one falls with
        it, so that its parts are −a_i; the scaled one is γ‖s‖, and its parts are γ a_i.
        """
        stage = self._stage()
        capsules = reference.features(h, r, t, stage.filters, stage.bias)
        if self.released:
            capsules = reference.squash(capsules, stage.epsilon)
        votes = reference.predictions(capsules, stage.weights)  # û, (..., k, d)
        coupled = reference.couplings(votes, stage.routing, scale=stage.scale, epsilon=stage.epsilon)[..., None] * votes
        direction = nn.functional.normalize(coupled.sum(-2, keepdim=True), dim=-1)
        parts = (coupled * direction).sum(-1)
        if self.scale is not None:
            return Contributions(parts * self.scale)
        if self.released:
            return Contributions(-parts, "minus the length of the output capsule before squashing (shorter is better)")
        return Contributions(parts, "the length of the output capsule before squashing")

    def score_tails(self, h: Tensor, r: Tensor, candidates: Tensor) -> Tensor:
        h, r, candidates = self.dropout(h), self.dropout(r), self.dropout(candidates)
        return self._scaled(scoring.score_tails(self._stage(), h, r, candidates, self._plain_tails))

    def score_heads(self, r: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        r, t, candidates = self.dropout(r), self.dropout(t), self.dropout(candidates)
        return self._scaled(scoring.score_heads(self._stage(), r, t, candidates, self._plain_heads))

    def _plain_tails(self, h: Tensor, r: Tensor, candidates: Tensor) -> Tensor:
        stage = self._stage()
        return self._chunked(lambda part: reference.score(stage, h[:, None], r[:, None], part), len(h), candidates)

    def _plain_heads(self, r: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        stage = self._stage()
        return self._chunked(lambda part: reference.score(stage, part, r[:, None], t[:, None]), len(t), candidates)

    def _stage(self) -> Stage:
        return Stage(
            self.filters,
            self.bias,
            self.weights,
            kind="released" if self.released else "paper" if self.scale is None else "length",
            routing=self.routing,
            scale=float(len(self.weights)) if self.released else 1.0,
            epsilon=_RELEASED_EPSILON if self.released else 0.0,
            sigmoid=self.readout == "sigmoid" and not self.training,
        )

    def _scaled(self, scores: Tensor) -> Tensor:
        return scores if self.scale is None else scores * self.scale
