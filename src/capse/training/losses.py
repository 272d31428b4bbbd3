"""Loss functions, on scores that are higher for more plausible triples.

softplus           Σ log(1 + exp(−y f)), y = ±1; the paper's (summed there)
squared_softplus   Σ log(1 + exp(−y f))²; the released program's (averaged there)
margin             Σ max(0, γ − f(true) + f(corrupted))
softmax            −log of the true one's share of Σ exp(f), over sampled or over all entities
bce                binary cross-entropy of every entity being an answer, with smoothed labels
kl                 cross-entropy of softmax(f) over all entities and the even spread over all answers, smoothed

A loss is a class with one or more of three methods, each for another kind of negatives: `SampledLoss`, `EntityLoss`,
`AnswersLoss`. Other packages register theirs in the entry point group ``capse.losses``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional as F

from capse.errors import SettingsError
from capse.registry import Registry
from capse.runs.settings import Section, check_choices
from capse.training.triple_weights import of_terms

LOSSES: Registry[type[LossFunction]] = Registry(
    "loss",
    "capse.losses",
    {
        "softplus": "capse.training.losses:Softplus",
        "squared_softplus": "capse.training.losses:SquaredSoftplus",
        "margin": "capse.training.losses:MarginLoss",
        "softmax": "capse.training.losses:Softmax",
        "bce": "capse.training.losses:BinaryCrossEntropy",
        "kl": "capse.training.losses:KullbackLeibler",
    },
)


@dataclass(frozen=True)
class Loss(Section):
    """Which loss, and its constants."""

    name: str = "softplus"
    """``softplus`` is the paper's, ``squared_softplus`` its authors' program's, ``margin`` TransE's; ``softmax`` goes
    with any sampler, ``bce`` and ``kl`` with ``negatives.sampler: all`` only; or one that another package registers."""
    reduction: Literal["sum", "mean"] = "sum"  # over the triples of a batch
    margin: float = 1.0  # γ
    smoothing: float = 0.0  # s: what bce and kl aim at is y (1 − s) + s/E
    relation_weight: float = 0.0
    """λ: adds λ times the cross-entropy of a triple's relation among all relations, given head and tail (Chen et al.,
    AKBC 2021); among those and their inverses where relations are reciprocal."""

    def __post_init__(self) -> None:
        self.settings_of(self.name)
        check_choices(self, "loss")
        if not 0 <= self.smoothing < 1:
            raise SettingsError(f"loss.smoothing is {self.smoothing}", "choose a share from 0 up to, but not, 1")
        if self.relation_weight < 0:
            raise SettingsError(f"loss.relation_weight is {self.relation_weight}", "choose 0 or more")

    @classmethod
    def settings_of(cls, name: object = "softplus") -> type[Loss]:
        """The settings of the loss of that name: these, or with constants of its own."""
        if not isinstance(name, str) or name not in LOSSES:
            raise SettingsError(f"loss.name is {name!r}", "choose from " + ", ".join(LOSSES))
        return LOSSES[name].Settings


class Answered(NamedTuple):
    """All answers of the B questions of a batch."""

    rows: Tensor  # (n,) the question that each belongs to
    entities: Tensor  # (n,)
    counts: Tensor  # (B,) how many each question has
    weights: Tensor | None = None  # (n,) of answers, where training triples have weights

    def total_weights(self) -> Tensor:
        """The sum of its answers' weights for each question, (B,)."""
        assert self.weights is not None
        return self.weights.new_zeros(len(self.counts)).index_add(0, self.rows, self.weights)


class LossFunction:
    """A loss with its settings. Its methods give terms, which the settings' reduction makes one number of."""

    Settings: ClassVar[type[Loss]] = Loss

    def __init__(self, settings: Loss) -> None:
        self.settings: Any = settings

    def reduce(self, terms: Tensor, weights: Tensor | None = None) -> Tensor:
        """One number of terms, each times the weight of its true triple where those (B,) are given."""
        weighted = terms if weights is None else terms * of_terms(weights, terms)
        return weighted.sum() if self.settings.reduction == "sum" else weighted.mean()


@runtime_checkable
class SampledLoss(Protocol):
    def of_sampled(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Terms of true scores (B,) against corrupted ones (B, n); a −∞ among the latter must not count."""


@runtime_checkable
class EntityLoss(Protocol):
    def of_entities(self, scores: Tensor, answers: Tensor) -> Tensor:
        """Terms (B,) of one answer each (B,) among all candidates, scores (B, E)."""


@runtime_checkable
class AnswersLoss(Protocol):
    def of_answers(self, scores: Tensor, answered: Answered) -> Tensor:
        """Terms (B,) of all answers of each question among all candidates, scores (B, E)."""


def build_loss(settings: Loss) -> LossFunction:
    return LOSSES[settings.name](settings)


def names_of(kind: type) -> str:
    """The losses that are of one of the three kinds, for an error's remedy.

    >>> names_of(AnswersLoss)
    'bce, kl'
    """
    return ", ".join(name for name, loss in LOSSES.items() if issubclass(loss, kind))


class Softplus(LossFunction):
    def of_sampled(self, positive: Tensor, negative: Tensor) -> Tensor:
        return torch.cat([F.softplus(-positive), F.softplus(negative).flatten()])


class SquaredSoftplus(Softplus):
    def of_sampled(self, positive: Tensor, negative: Tensor) -> Tensor:
        return super().of_sampled(positive, negative).square()


class MarginLoss(LossFunction):
    def of_sampled(self, positive: Tensor, negative: Tensor) -> Tensor:
        return F.relu(self.settings.margin - positive.unsqueeze(1) + negative)


class Softmax(LossFunction):
    def of_sampled(self, positive: Tensor, negative: Tensor) -> Tensor:
        return torch.cat([positive.unsqueeze(1), negative], dim=1).logsumexp(1) - positive

    def of_entities(self, scores: Tensor, answers: Tensor) -> Tensor:
        return F.cross_entropy(scores, answers, reduction="none")


class BinaryCrossEntropy(LossFunction):
    """Averaged over the entities of a question; the target is y (1 − s) + s/E.

    With weights an answer's term counts so much, and that of an entity that is no answer as much as answers do on
    average.
    """

    def of_answers(self, scores: Tensor, answered: Answered) -> Tensor:
        target = torch.zeros_like(scores)
        target[answered.rows, answered.entities] = 1
        if s := self.settings.smoothing:
            target = target * (1 - s) + s / target.shape[1]
        terms = F.binary_cross_entropy_with_logits(scores, target, reduction="none")
        if answered.weights is None:
            return terms.mean(1)
        weights = (answered.total_weights() / answered.counts).unsqueeze(1).expand_as(terms).clone()
        weights[answered.rows, answered.entities] = answered.weights
        return (terms * weights).mean(1)


class KullbackLeibler(LossFunction):
    """−Σ_e y_e log softmax(f)_e, y being (1 − s)/n on a question's n answers, plus s/E on all entities.

    It is the divergence KL(y ‖ softmax(f)) plus what y alone decides. With weights w the n answers share 1 − s by
    their weights, and the question counts as much as its answers do on average.
    """

    def of_answers(self, scores: Tensor, answered: Answered) -> Tensor:
        kept = torch.promote_types(scores.dtype, torch.float32)  # bfloat16 is too coarse to add answers up in
        chances = F.log_softmax(scores, dim=1, dtype=kept)
        each = chances[answered[:2]]
        if answered.weights is not None:
            each = each * answered.weights
        of_answers = torch.zeros_like(chances[:, 0]).index_add(0, answered.rows, each)
        of_answers = of_answers / answered.counts
        s = self.settings.smoothing
        if not s:
            return -of_answers
        everywhere: Tensor = chances.mean(1)
        if answered.weights is not None:
            everywhere = everywhere * answered.total_weights() / answered.counts
        spread: Tensor = (1 - s) * of_answers + s * everywhere
        return -spread
