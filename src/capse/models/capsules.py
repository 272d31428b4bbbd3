"""What CapsE and our scaled form of it share: k capsules of feature maps that vote for one output capsule."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from capse.errors import SettingsError
from capse.kernels import reference
from capse.kernels.stage import floats_per_triple
from capse.models.base import ModelSettings, check_dropout, check_filters
from capse.models.feature_maps import FeatureMapScorer


@dataclass(frozen=True)
class CapsuleSettings(ModelSettings):
    """The sizes of a capsule network; the defaults are the paper's."""

    filters: int = 50  # N
    capsule_dim: int = 10  # d, the size of the output capsule
    routing: int = 1  # m, routing iterations
    dropout: float = 0.0  # of the entries of h, r and t

    def __post_init__(self) -> None:
        super().__post_init__()
        check_filters(self.filters)
        check_dropout("dropout", self.dropout)
        if self.capsule_dim < 1:
            raise SettingsError(f"model.capsule_dim is {self.capsule_dim}", "choose a size of 1 or more")
        if self.routing < 1:
            raise SettingsError(f"model.routing is {self.routing}", "choose 1 iteration or more")


class CapsuleScorer(FeatureMapScorer):
    """u_i = relu(Ωᵀ[h_i, r_i, t_i] + b) ∈ R^N, û_i = W_i u_i ∈ R^d, s = Σ_i c_i û_i, and a score made of ‖s‖.

    The couplings c start at 1/k each and are refined by m − 1 rounds of routing.
    """

    def __init__(self, settings: CapsuleSettings, filters: Tensor, weight_deviation: float) -> None:
        super().__init__(settings.dim, filters)
        self.routing = settings.routing
        self.dropout = nn.Dropout(settings.dropout)
        weights = torch.empty(settings.dim, settings.filters, settings.capsule_dim)
        self.weights = nn.Parameter(nn.init.normal_(weights, std=weight_deviation))  # W_i transposed, (k, N, d)
        self.floats_per_triple = floats_per_triple(*weights.shape)

    def dropped(self, *vectors: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.dropout(vector) for vector in vectors)

    def parts_of_length(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """What each first-layer capsule adds to the output's length: a_i = c_i û_i·s/‖s‖, (..., k), Σ_i a_i = ‖s‖.

        The couplings c are the last ones of the routing.
        """
        stage = self.stage()
        votes = reference.predictions(reference.first_layer(stage, h, r, t), stage.weights)  # û, (..., k, d)
        coupled = reference.couplings(votes, stage.routing, scale=stage.scale, epsilon=stage.epsilon)[..., None] * votes
        direction = nn.functional.normalize(coupled.sum(-2, keepdim=True), dim=-1)
        return (coupled * direction).sum(-1)
