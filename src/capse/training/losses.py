"""Loss functions, on scores that are higher for more plausible triples.

softplus           Σ log(1 + exp(−y f)), y = ±1; the paper's (summed there)
squared_softplus   Σ log(1 + exp(−y f))²; the released program's (averaged there)
margin             Σ max(0, γ − f(true) + f(corrupted))
softmax            −log of the true one's share of Σ exp(f), over sampled or over all entities
bce                binary cross-entropy of every entity being an answer, with smoothed labels
kl                 cross-entropy of softmax(f) over all entities and the even spread over all answers, smoothed
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from capse.errors import SettingsError

OF_ANSWERS = ("bce", "kl")  # these are about a question and all its answers, not about a triple


@dataclass(frozen=True)
class LossSettings:
    """Which loss, and its constants."""

    name: Literal["softplus", "squared_softplus", "margin", "softmax", "bce", "kl"] = "softplus"
    reduction: Literal["sum", "mean"] = "sum"  # over the triples of a batch
    margin: float = 1.0  # γ
    smoothing: float = 0.0  # s: what bce and kl aim at is y (1 − s) + s/E

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
        raise needs_all_entities(settings)
    return _reduce(terms, settings)


def softmax_loss(settings: LossSettings, scores: Tensor, answers: Tensor) -> Tensor:
    """Cross-entropy of the answers (B,) among all candidates, scores (B, E)."""
    return F.cross_entropy(scores, answers, reduction=settings.reduction)


def binary_loss(settings: LossSettings, scores: Tensor, labels: Tensor) -> Tensor:
    """Binary cross-entropy of labels (B, E), averaged over the entities of a query, reduced over queries."""
    if settings.smoothing:
        labels = labels * (1 - settings.smoothing) + settings.smoothing / labels.shape[1]
    return _reduce(F.binary_cross_entropy_with_logits(scores, labels, reduction="none").mean(1), settings)


def spread_loss(settings: LossSettings, scores: Tensor, rows: Tensor, answers: Tensor, counts: Tensor) -> Tensor:
    """Cross-entropy −Σ_e y_e log softmax(f)_e of scores (B, E): y is (1 − s)/n on a row's n answers, plus s/E on all.

    ``rows`` and ``answers`` name every answer, ``counts`` (B,) says how many a row has. It is the divergence
    KL(y ‖ softmax(f)) plus what y alone decides.
    """
    kept = torch.promote_types(scores.dtype, torch.float32)  # bfloat16 is too coarse to add answers up in
    chances = F.log_softmax(scores, dim=1, dtype=kept)
    of_answers = torch.zeros_like(chances[:, 0]).index_add(0, rows, chances[rows, answers]) / counts
    s = settings.smoothing
    return _reduce(-((1 - s) * of_answers + s * chances.mean(1) if s else of_answers), settings)


def needs_all_entities(settings: LossSettings) -> SettingsError:
    """What to say of a loss about whole questions where negatives are sampled."""
    return SettingsError(
        f"loss.name is {settings.name!r} with sampled negatives", "use softplus, or negatives.sampler=all"
    )


def _reduce(terms: Tensor, settings: LossSettings) -> Tensor:
    return terms.sum() if settings.reduction == "sum" else terms.mean()
