"""CapsE: a capsule network over the feature maps of 1×3 filters on [h, r, t]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from capse.kernels.stage import Stage
from capse.models.base import Contributions
from capse.models.capsules import CapsuleScorer, CapsuleSettings
from capse.models.feature_maps import normal_filters, translation_filters

_RELEASED_EPSILON = 1e-9


@dataclass(frozen=True)
class CapsE(CapsuleSettings):
    """Settings of CapsE; the defaults are the paper's."""

    variant: Literal["paper", "released"] = "paper"  # the paper's form, or its authors' program's
    filter_start: Literal["normal", "translation"] = "normal"  # truncated normal of 0.1, or all (0.1, 0.1, −0.1)
    readout: Literal["length", "sigmoid"] = "length"  # sigmoid: rank by float32 sigmoids, as the released program does


class CapsEScorer(CapsuleScorer):
    """f(h, r, t) = ‖capsnet(relu([h, r, t] ∗ Ω))‖, the length of one output capsule in R^d.

    With u_i ∈ R^N the i-th entries of all N feature maps, û_i = W_i u_i, s = Σ_i c_i û_i and e = squash(s), the score
    is ‖e‖ = ‖s‖²/(1 + ‖s‖²). The couplings c start at 1/k each and are refined by m − 1 rounds of routing.

    ``variant: released`` is the authors' program: u_i squashed too, c k times as large, gradients through the last
    routing iteration only, and *shorter* output capsules for valid triples, so the score is −√(‖e‖² + 1e-9).
    """

    Settings = CapsE
    citation = (
        "Nguyen et al., A Capsule Network-based Embedding Model for Knowledge Graph Completion and Search "
        "Personalization, NAACL 2019"
    )

    wants_start = True

    def __init__(self, settings: CapsE) -> None:
        start = translation_filters if settings.filter_start == "translation" else normal_filters
        # The paper's form divides by k in the couplings and squares the length in squash: it needs a larger start.
        super().__init__(settings, start(settings.filters), 0.01 if settings.variant == "released" else 1.0)
        self.variant, self.readout = settings.variant, settings.readout
        self.rounds_scores = settings.readout == "sigmoid"

    def stage(self) -> Stage:
        released = self.variant == "released"
        return Stage(
            self.filters,
            self.bias,
            self.weights,
            kind=self.variant,
            routing=self.routing,
            scale=float(len(self.weights)) if released else 1.0,
            epsilon=_RELEASED_EPSILON if released else 0.0,
            sigmoid=self.readout == "sigmoid" and not self.training,
        )

    def contributions(self, h: Tensor, r: Tensor, t: Tensor) -> Contributions:
        """The paper's score rises with ‖s‖, the released one falls with it."""
        parts = self.parts_of_length(h, r, t)
        if self.variant == "released":
            return Contributions(-parts, "minus the length of the output capsule before squashing (shorter is better)")
        return Contributions(parts, "the length of the output capsule before squashing")
