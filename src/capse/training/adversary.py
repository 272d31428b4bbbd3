"""Negatives that a second model chooses (KBGAN: Cai and Wang, NAACL 2018).

Of a few candidates for each true triple, the *generator* G says how likely each is, p = softmax of its scores; one is
drawn, and the *discriminator* D, the model that is kept, is trained to tell it from the true triple. What D thinks of
the drawn triple is the generator's reward, so that G learns to draw what D takes for true:

    L_D = Σ loss(f_D(true), f_D(drawn))          L_G = −Σ (R − b) log p(drawn),   R = f_D(drawn)

R, from the discriminator as it is before its step, and the baseline b are constants to the generator's gradient
(REINFORCE: Williams, 1992). The mean of that gradient over all that can be drawn is that of −Σ p R.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from capse.errors import SettingsError
from capse.models import TripleModel
from capse.runs.settings import Section, check_choices
from capse.training.losses import Loss, SampledLoss, names_of
from capse.training.negatives import Corruptor, Negatives
from capse.training.objectives import Drawn, TripleObjective, build_corruptor, with_inverses
from capse.training.regularizers import Regularizer
from capse.triples import TripleIndex, Triples

STEPS = 2**23  # of the numbers that are drawn between 0 and 1: with so many, each is exact in float32


@dataclass(frozen=True)
class Adversary(Section):
    """A second model that chooses the negatives, the generator; there is none unless ``run`` or ``model`` names it."""

    run: str | None = None  # a finished run on the same graph, whose model it begins as
    model: str | None = None  # its model, where it begins at random; beside run: what that run must be of
    dim: int = 50  # its k, where it begins at random
    candidates: int = 20  # for each true triple, of which negatives.count are drawn
    learning_rate: float = 1e-3  # of the generator; optimiser and schedule are the section optimizer's
    embedding_decay: float = 0.0  # weight decay of its tables
    weight_decay: float = 0.0  # weight decay of everything else in it
    baseline: Literal["epoch", "none"] = "epoch"  # b: the mean reward of the epoch before, at first 0; or always 0

    def __post_init__(self) -> None:
        check_choices(self, "adversary")
        for key, least in (("dim", 1), ("candidates", 2)):
            if getattr(self, key) < least:
                raise SettingsError(f"adversary.{key} is {getattr(self, key)}", f"choose {least} or more")
        if self.learning_rate <= 0:
            raise SettingsError(f"adversary.learning_rate is {self.learning_rate}", "choose a number above 0")
        for key in ("embedding_decay", "weight_decay"):
            if getattr(self, key) < 0:
                raise SettingsError(f"adversary.{key} is {getattr(self, key)}", "choose 0 or more")

    @property
    def is_named(self) -> bool:
        """Whether there is a second model."""
        return self.run is not None or self.model is not None


class Baseline(nn.Module):
    """b, what a reward is measured against, and the rewards of the epoch under way."""

    value: Tensor
    total: Tensor
    count: Tensor
    epoch: Tensor

    def __init__(self, kind: Literal["epoch", "none"], device: torch.device) -> None:
        super().__init__()
        self.kind = kind
        self.register_buffer("value", torch.zeros((), device=device))
        self.register_buffer("total", torch.zeros((), dtype=torch.float64, device=device))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64, device=device))
        self.register_buffer("epoch", torch.zeros((), dtype=torch.long))  # never on a GPU, which it would wait for

    def enter(self, epoch: int) -> None:
        """Say which epoch the next rewards are of: with a new one, the mean of the last becomes the baseline."""
        if epoch != int(self.epoch):
            self.epoch.fill_(epoch)
            if self.kind == "epoch":
                self.value.copy_(self.total / self.count)
            self.total.zero_()
            self.count.zero_()

    def add(self, rewards: Tensor) -> None:
        self.total += rewards.sum(dtype=torch.float64)
        self.count += rewards.numel()


class AdversarialObjective(TripleObjective):
    """Each true triple against what the generator draws among its candidates."""

    def __init__(
        self,
        model: TripleModel,
        generator: TripleModel,
        triples: Triples,
        corruptor: Corruptor,
        count: int,
        adversary: Adversary,
        loss: Loss,
        regularizer: Regularizer,
    ) -> None:
        super().__init__(model, triples, loss, regularizer)
        self.generator = generator
        self.corruptor = corruptor
        self.count, self.candidates = count, adversary.candidates
        if not isinstance(self.function, SampledLoss):
            remedy = f"use one of {names_of(SampledLoss)}"
            raise SettingsError(f"loss.name is {loss.name!r} with negatives that an adversary draws", remedy)
        self.baseline = Baseline(adversary.baseline, model.device)

    @property
    def models(self) -> tuple[TripleModel, ...]:
        return self.model, self.generator

    @property
    def triples_each(self) -> int:
        return self.candidates + 1 + self.count

    def rows(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        """For each true triple it, the heads and the tails of its candidates, and whole numbers to draw them by."""
        heads, tails = self.corruptor.corrupt(batch, self.candidates, generator)
        choices = torch.randint(STEPS, (len(batch), self.count), device=batch.device, generator=generator)
        return torch.cat([batch, heads, tails, choices], 1)

    def losses(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """L_D + L_G, which have no weight in common, and L_D."""
        true, heads, tails, choices = rows.split([3, self.candidates, self.candidates, self.count], dim=1)
        chances = self.generator.score_triples(heads, true[:, 1:2], tails).log_softmax(1)  # (B, candidates)
        drawn = draw(chances.detach(), choices)  # (B, count)
        versions = [torch.cat([true[:, [side]], ids.gather(1, drawn)], 1) for side, ids in ((0, heads), (2, tails))]
        scores = self.model.score_triples(versions[0], true[:, 1:2], versions[1])  # (B, 1 + count)
        loss = self.total(
            self.function.reduce(self.function.of_sampled(scores[:, 0], scores[:, 1:])), Drawn(true), self.model
        )
        rewards = scores[:, 1:].detach()
        surprise = self.function.reduce(-(rewards - self.baseline.value) * chances.gather(1, drawn))
        self.baseline.add(rewards)
        return loss + surprise, loss


def draw(log_chances: Tensor, choices: Tensor) -> Tensor:
    """(B, n): the columns of log_chances (B, C) that whole numbers (B, n) stand for, each as often as its chance says.

    >>> draw(torch.tensor([[0.25, 0.75]]).log(), torch.tensor([[0, 2**21 - 1, 2**21, 2**23 - 1]]))
    tensor([[0, 0, 1, 1]])
    """
    sums = log_chances.exp().cumsum(1)
    places = (choices + 0.5) / STEPS * sums[:, -1:]
    return torch.searchsorted(sums, places)


def build_adversarial(
    model: TripleModel,
    generator: TripleModel,
    triples: Triples,
    adversary: Adversary,
    loss: Loss,
    negatives: Negatives,
    regularizer: Regularizer,
) -> AdversarialObjective:
    """The objective of a discriminator and a generator, over training triples (n, 3)."""
    if model.reciprocal != generator.reciprocal:
        whose = {model.reciprocal: "the model", generator.reciprocal: "its adversary"}
        raise SettingsError(f"{whose[True]} has reciprocal relations and {whose[False]} has not", "train both alike")
    if negatives.sampler not in ("bernoulli", "uniform"):
        raise SettingsError(
            f"negatives.sampler is {negatives.sampler!r} with an adversary",
            "choose bernoulli or uniform, which say the side that candidates replace",
        )
    if model.reciprocal:
        triples = with_inverses(triples, model.relation_count)
    index = TripleIndex(triples, len(model.entities), len(model.relations))
    corruptor = build_corruptor(model, index, triples, negatives, one_side=True)
    return AdversarialObjective(model, generator, triples, corruptor, negatives.count, adversary, loss, regularizer)
