"""Loss functions, on scores that are higher for more plausible triples.

softplus           Σ log(1 + exp(−y f)), y = ±1; the paper's (summed there)
squared_softplus   Σ log(1 + exp(−y f))²; the released program's (averaged there)
margin             Σ max(0, γ − f(true) + f(corrupted))
softmax            −log of the true one's share of Σ exp(f), over sampled or over all entities
bce                binary cross-entropy of every entity being an answer, with smoothed labels
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from capse.errors import SettingsError


@dataclass(frozen=True)
class LossSettings:
    """Which loss, and its constants."""

    name: Literal["softplus", "squared_softplus", "margin", "softmax", "bce"] = "softplus"
    reduction: Literal["sum", "mean"] = "sum"  # over the triples of a batch
    margin: float = 1.0  # γ
    smoothing: float = 0.0  # of bce's labels: y (1 − s) + s / E

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing < 1:
            raise SettingsError(f"loss.smoothing is {self.smoothing}", "choose a share from 0 up to, but not, 1")


def corruption_loss(settings: LossSettings, positive: Tensor, negative: Tensor) -> Tensor:
    """The loss of true scores (B,) against corrupted ones (B, n); a −∞ among the latter does not count."""
    if settings.name == "softplus":
        terms = torch.cat([F.softplus(-positive), F.softplus(negative).flatten()])
    elif settings.name == "squared_softplus":
        terms = torch.cat([F.softplus(-positive), F.softplus(negative).flatten()]).square()
    elif settings.name == "margin":
        terms = F.relu(settings.margin - positive.unsqueeze(1) + negative)
    elif settings.name == "softmax":
        scores = torch.cat([positive.unsqueeze(1), negative], dim=1)
        terms = scores.logsumexp(1) - positive
    else:
        raise SettingsError("loss.name is 'bce' with sampled negatives", "use softplus, or negatives.sampler=all")
    return _reduce(terms, settings)


def softmax_loss(settings: LossSettings, scores: Tensor, answers: Tensor) -> Tensor:
    """Cross-entropy of the answers (B,) among all candidates, scores (B, E)."""
    return F.cross_entropy(scores, answers, reduction=settings.reduction)


def binary_loss(settings: LossSettings, scores: Tensor, labels: Tensor) -> Tensor:
    """Binary cross-entropy of labels (B, E), averaged over the entities of a query, reduced over queries."""
    if settings.smoothing:
        labels = labels * (1 - settings.smoothing) + settings.smoothing / labels.shape[1]
    return _reduce(F.binary_cross_entropy_with_logits(scores, labels, reduction="none").mean(1), settings)


def _reduce(terms: Tensor, settings: LossSettings) -> Tensor:
    return terms.sum() if settings.reduction == "sum" else terms.mean()
