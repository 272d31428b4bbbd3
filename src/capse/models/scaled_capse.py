"""Our form of CapsE for training against many candidates: a learned scale in place of squash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from capse.errors import SettingsError
from capse.kernels.stage import Stage
from capse.models.base import Contributions
from capse.models.capsules import CapsuleScorer, CapsuleSettings
from capse.models.feature_maps import FILTER_SIZE, normal_filters
from capse.models.starts import (
    DISTANCE_NOISE,
    FILTERS_PER_KNOT,
    PRODUCT_NOISE,
    distance_filters,
    product_filters,
)

_OTHER_FILTERS = 3  # beside a product's: one that is always on, and two for a distance
_LEAST_FILTERS = {"normal": 1, "distance": 2, "product": _OTHER_FILTERS + 2 * FILTERS_PER_KNOT}
_LIFT = 30.0  # what it adds to the largest distance: a length cannot fall below zero, and a sum of products can


@dataclass(frozen=True)
class ScaledCapsE(CapsuleSettings):
    """Settings of the scaled form of CapsE."""

    filter_start: Literal["normal", "distance", "product"] = "normal"  # or near TransE's score, DistMult's
    distance_dims: int = 0  # where filter_start is product: the last so many dimensions start as a distance
    distance_weight: float = 0.5  # how much that distance counts beside the product

    def __post_init__(self) -> None:
        super().__post_init__()
        least = _LEAST_FILTERS[self.filter_start]
        if self.filters < least:
            raise SettingsError(
                f"model.filter_start is {self.filter_start!r} and model.filters {self.filters}",
                f"set model.filters={least} or more, or choose another start",
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


class ScaledCapsEScorer(CapsuleScorer):
    """f(h, r, t) = γ‖s‖ with s = Σ_i c_i W_i u_i as in CapsE, and a learned γ.

    Squash keeps every score below 1, and a softmax over thousands of candidates needs them further apart than that.
    With ``filter_start: distance`` it starts near −‖h + r − t‖₁, TransE's score: shorter vectors are then the valid
    ones. With ``filter_start: product`` it starts near a constant plus Σ_i h_i r_i t_i, DistMult's score, less the
    distance in the last dimensions where ``distance_dims`` says so: it then begins as two models added up.
    """

    Settings = ScaledCapsE
    citation = (
        "Nguyen et al., A Capsule Network-based Embedding Model for Knowledge Graph Completion and Search "
        "Personalization, NAACL 2019"
    )

    def __init__(self, settings: ScaledCapsE) -> None:
        super().__init__(settings, *_start(settings))
        self.scale = nn.Parameter(torch.tensor(float(settings.dim)))  # γ
        self.starts_as_product = settings.filter_start == "product"
        self.distance_dims, self.distance_weight = settings.distance_dims, settings.distance_weight
        if settings.filter_start == "distance":
            self._start_as_distance()

    def stage(self) -> Stage:
        return Stage(self.filters, self.bias, self.weights, kind="length", routing=self.routing, gamma=self.scale)

    def contributions(self, h: Tensor, r: Tensor, t: Tensor) -> Contributions:
        return Contributions(self.parts_of_length(h, r, t) * self.scale)

    @torch.no_grad()
    def _start_as_distance(self) -> None:
        """γ‖s‖ = −Σ_i |h_i + r_i − t_i|, up to noise: all features add up along the output capsule's first axis."""
        k, n, _ = self.weights.shape
        self.weights[:, : n // 2 * 2, 0] += _weight_of_pair(n)
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


def _start(settings: ScaledCapsE) -> tuple[Tensor, float]:
    """The filters (3, N) and the deviation of the weights; for a product, the noise that `adapt` adds it to."""
    if settings.filter_start == "distance":
        return distance_filters(settings.filters), DISTANCE_NOISE * _weight_of_pair(settings.filters)
    if settings.filter_start == "product":
        return nn.init.normal_(torch.empty(3, settings.filters), std=PRODUCT_NOISE), PRODUCT_NOISE
    return normal_filters(settings.filters), 1.0


def _weight_of_pair(filters: int) -> float:
    """What relu(x) + relu(−x) of one pair of filters is multiplied by, so that all pairs add up to |h + r − t|."""
    return 1 / (FILTER_SIZE * (filters // 2))
