"""An objective turns a batch of examples into a loss.

It is an ordinary ``nn.Module`` whose forward pass is the whole differentiable part of a training step, so that
``DistributedDataParallel`` can wrap it as it is. What an example is, is the objective's own business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from capse.arrays import Float32s, large_array
from capse.errors import SettingsError
from capse.models import Model, TripleModel
from capse.training.batches import Examples, WholeNumbers
from capse.training.losses import Answered, AnswersLoss, EntityLoss, Loss, SampledLoss, build_loss, names_of
from capse.training.negatives import Corruptor, Negatives, head_chances
from capse.training.regularizers import Regularizer, penalty
from capse.training.triple_weights import TripleWeights
from capse.triples import HEAD, RELATION, TAIL, TripleIndex, Triples


class Objective(nn.Module):
    """A loss over examples, by a model that has all the weights."""

    examples: Examples
    model: Model
    loss: Loss

    def forward(self, batch: Any, generator: torch.Generator) -> Tensor:
        """The loss of ``batch``, some of the examples; what is drawn for it comes from ``generator``."""
        raise NotImplementedError


@dataclass(frozen=True)
class Drawn:
    """A batch and its negatives, by ids alone: all that a step wants of the entity table."""

    triples: Tensor  # (B, 3)
    entities: tuple[Tensor, ...] = ()  # ids of any shape, which an objective knows how to read
    masks: tuple[Tensor, ...] = ()  # which of them do not count
    weights: Tensor | None = None  # (B,) of the triples, where they have any

    def ids(self) -> Tensor:
        """The distinct entities that are named, ascending."""
        named = [self.triples[:, HEAD], self.triples[:, TAIL], *self.entities]
        ids: Tensor = torch.cat([x.reshape(-1) for x in named]).unique()
        return ids

    def within(self, ids: Tensor) -> Drawn:
        """The same by places in ``ids``, which are ascending and hold all that are named."""
        heads, relations, tails = self.triples.unbind(1)
        places = torch.searchsorted(ids, torch.stack([heads, tails]))
        triples = torch.stack([places[0], relations, places[1]], dim=1)
        entities = tuple(torch.searchsorted(ids, x) for x in self.entities)
        return Drawn(triples, entities, self.masks, self.weights)


def build_objective(
    model: TripleModel,
    triples: Triples,
    loss: Loss,
    negatives: Negatives,
    regularizer: Regularizer,
    weights: Float32s | None = None,
) -> Objective:
    """The objective that the settings describe, over training triples (n, 3), which may have weights (n,)."""
    relations = model.relation_count
    if model.reciprocal:
        triples, relations = with_inverses(triples, relations), 2 * relations
        weights = None if weights is None else np.tile(weights, 2)
    objective = _unweighted(model, triples, relations, loss, negatives, regularizer)
    if weights is not None:
        objective.weights = TripleWeights(triples, weights, model.entity_count, relations, model.device)
    return objective


def _unweighted(
    model: TripleModel,
    triples: Triples,
    relations: int,
    loss: Loss,
    negatives: Negatives,
    regularizer: Regularizer,
) -> TripleObjective:
    index = TripleIndex(triples, model.entity_count, relations)
    if negatives.sampler == "all":
        function = build_loss(loss)
        if isinstance(function, AnswersLoss):
            return AnswersObjective(model, triples, index, loss, regularizer)
        if isinstance(function, EntityLoss):
            return AllEntitiesObjective(model, triples, loss, regularizer)
        fit = f"{names_of(EntityLoss)}, {names_of(AnswersLoss)}"
        raise SettingsError(f"loss.name is {loss.name!r} with negatives.sampler=all", f"choose one of {fit}")
    corruptor = build_corruptor(model, index, triples, negatives, one_side=negatives.one_side)
    kind = SharedObjective if negatives.sampler == "shared" else CorruptionObjective
    return kind(model, triples, corruptor, negatives.count, loss, regularizer)


def build_corruptor(
    model: TripleModel, index: TripleIndex, triples: Triples, negatives: Negatives, *, one_side: bool
) -> Corruptor:
    """What draws the sampled negatives of training triples (n, 3), of a reciprocal model inverse ones included."""
    if model.reciprocal:
        chances = torch.zeros(index.relations)  # heads are tails of the inverse triples, which are examples too
    elif negatives.sampler in ("bernoulli", "uniform"):
        chances = head_chances(triples, index.relations, negatives.sampler)
    else:
        chances = torch.full((index.relations,), 0.5)
    return Corruptor(index, chances, model.device, filtered=negatives.filtered, one_side=one_side)


def with_inverses(triples: Triples, relations: int) -> Triples:
    """The triples and, for each (h, r, t), its inverse (t, r + R, h)."""
    count = len(triples)
    both: Triples = large_array((2 * count, 3), triples.dtype)
    both[:count] = triples
    both[count:, HEAD], both[count:, TAIL] = triples[:, TAIL], triples[:, HEAD]
    both[count:, RELATION] = triples[:, RELATION] + relations
    return both


class TripleObjective(Objective):
    """A loss over triples, or questions made of them, with what the settings add to it."""

    def __init__(self, model: TripleModel, examples: Triples, loss: Loss, regularizer: Regularizer) -> None:
        super().__init__()
        self.model: TripleModel = model
        self.loss = loss
        self.function: Any = build_loss(loss)
        self.regularizer = regularizer
        self.weights: TripleWeights | None = None
        self.examples: WholeNumbers = WholeNumbers(torch.from_numpy(np.ascontiguousarray(examples)).to(model.device))

    def total(self, loss: Tensor, of: Drawn, model: TripleModel, share: float = 1.0) -> Tensor:
        """The loss of true triples with their relations' and penalties.

        Where they are a ``share`` of a batch, the totals of all shares add up to the batch's.
        """
        if self.loss.relation_weight:
            loss = loss + self._relation_loss(of.triples, of.weights, model)
        if share != 1 and self.loss.reduction == "mean":
            loss = share * loss
        return self._penalised(loss, of.triples, model, share)

    def weights_of(self, triples: Tensor) -> Tensor | None:
        """The weights (B,) of true triples (B, 3), where there are any."""
        return None if self.weights is None else self.weights.of(triples)

    def _penalised(self, loss: Tensor, triples: Tensor, model: TripleModel, share: float = 1.0) -> Tensor:
        extra = penalty(self.regularizer, model, triples)
        if extra is None:
            return loss
        return loss + (extra if share == 1 else share * extra)

    def _relation_loss(self, triples: Tensor, weights: Tensor | None, model: TripleModel) -> Tensor:
        """λ times −log of the relation's share of Σ_r exp f(h, r, t), for triples (B, 3)."""
        heads, relations, tails = triples.unbind(1)
        scores = model.score_relations(heads, tails, inverses=True)
        terms = F.cross_entropy(scores, relations, reduction="none")
        total: Tensor = self.function.reduce(terms, weights)
        return self.loss.relation_weight * total


class SampledObjective(TripleObjective):
    """Each true triple against sampled entities: a step of it names few rows of the entity table.

    What is drawn and what is made of it are two methods, so that the second can be given other tables.
    """

    def draw(self, batch: Tensor, generator: torch.Generator, common: torch.Generator) -> Drawn:
        """The negatives of a batch (B, 3); ``common`` draws what it shares with the other parts of its step."""
        raise NotImplementedError

    def loss_of_drawn(self, drawn: Drawn, model: TripleModel, share: float = 1.0) -> Tensor:
        """The loss of it, by a model whose tables its ids are places in; see `total` for the ``share``."""
        raise NotImplementedError

    def forward(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        return self.loss_of_drawn(self.draw(batch, generator, generator), self.model)


class CorruptionObjective(SampledObjective):
    """Each true triple against corrupted versions of itself."""

    def __init__(
        self,
        model: TripleModel,
        triples: Triples,
        corruptor: Corruptor,
        count: int,
        loss: Loss,
        regularizer: Regularizer,
    ) -> None:
        super().__init__(model, triples, loss, regularizer)
        self.corruptor = corruptor
        self.count = count
        if not isinstance(self.function, SampledLoss):
            raise SettingsError(
                f"loss.name is {loss.name!r} with sampled negatives",
                f"use one of {names_of(SampledLoss)}, or negatives.sampler=all",
            )

    def draw(self, batch: Tensor, generator: torch.Generator, common: torch.Generator) -> Drawn:
        heads, _, tails = self.versions(batch, generator)
        return Drawn(batch, (heads, tails), weights=self.weights_of(batch))

    def loss_of_drawn(self, drawn: Drawn, model: TripleModel, share: float = 1.0) -> Tensor:
        heads, tails = drawn.entities
        scores = model.score_triples(heads, drawn.triples[:, RELATION].unsqueeze(1), tails)
        return self._loss_of(scores, drawn, model, share)

    def loss_of(self, scores: Tensor, batch: Tensor) -> Tensor:
        """The loss of scores (B, 1 + count), the true triple's first."""
        return self._loss_of(scores, Drawn(batch, weights=self.weights_of(batch)), self.model)

    def _loss_of(self, scores: Tensor, of: Drawn, model: TripleModel, share: float = 1.0) -> Tensor:
        return self.total(self._against(scores[:, 0], scores[:, 1:], of.weights), of, model, share)

    def _against(self, positive: Tensor, negative: Tensor, weights: Tensor | None) -> Tensor:
        loss: Tensor = self.function.reduce(self.function.of_sampled(positive, negative), weights)
        return loss

    @property
    def models(self) -> tuple[TripleModel, ...]:
        return (self.model,)

    @property
    def triples_each(self) -> int:
        return 1 + self.count

    def rows(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        """Heads, relation and tails side by side, (B, (1 + count) + 1 + (1 + count)), the true ones first."""
        heads, relations, tails = self.versions(batch, generator)
        return torch.cat([heads, relations.unsqueeze(1), tails], 1)

    def losses(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of such rows, which is what is lowered too."""
        each = self.triples_each
        heads, relations, tails = rows.split([each, 1, each], dim=1)
        scores = self.model.score_triples(heads, relations, tails)
        loss = self.loss_of(scores, torch.cat([heads[:, :1], relations, tails[:, :1]], 1))
        return loss, loss

    def versions(self, batch: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Heads (B, 1 + count), relations (B,) and tails (B, 1 + count), the true triple first."""
        heads, relations, tails = batch.unbind(1)
        wrong_heads, wrong_tails = self.corruptor.corrupt(batch, self.count, generator)
        return (
            torch.cat([heads.unsqueeze(1), wrong_heads], 1),
            relations,
            torch.cat([tails.unsqueeze(1), wrong_tails], 1),
        )


class SharedObjective(CorruptionObjective):
    """Each true triple against the same sampled entities as every other of its batch, known facts left out."""

    def draw(self, batch: Tensor, generator: torch.Generator, common: torch.Generator) -> Drawn:
        heads, relations, tails = batch.unbind(1)
        drawn = torch.randint(self.corruptor.entities, (self.count,), device=batch.device, generator=common)
        masks = [self.corruptor.known_tails(heads, relations, drawn)]
        if not self.model.reciprocal:
            masks.append(self.corruptor.known_heads(relations, tails, drawn))
        return Drawn(batch, (drawn,), tuple(masks), self.weights_of(batch))

    def loss_of_drawn(self, drawn: Drawn, model: TripleModel, share: float = 1.0) -> Tensor:
        heads, relations, tails = drawn.triples.unbind(1)
        (sampled,) = drawn.entities
        positive = model.score_triples(heads, relations, tails)
        wrong_tails = model.score_tails(heads, relations, sampled)  # (B, count)
        loss = self._against(positive, wrong_tails.masked_fill(drawn.masks[0], -torch.inf), drawn.weights)
        if not model.reciprocal:
            wrong_heads = model.score_heads(relations, tails, sampled)
            wrong = wrong_heads.masked_fill(drawn.masks[1], -torch.inf)
            loss = (loss + self._against(positive, wrong, drawn.weights)) / 2
        return self.total(loss, drawn, model, share)


class AllEntitiesObjective(TripleObjective):
    """The true tail, and the true head, among all entities."""

    def forward(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        heads, relations, tails = batch.unbind(1)
        weights = self.weights_of(batch)
        loss = self._among(self.model.score_tails(heads, relations), tails, weights)
        if not self.model.reciprocal:
            loss = (loss + self._among(self.model.score_heads(relations, tails), heads, weights)) / 2
        return self.total(loss, Drawn(batch, weights=weights), self.model)

    def _among(self, scores: Tensor, answers: Tensor, weights: Tensor | None) -> Tensor:
        loss: Tensor = self.function.reduce(self.function.of_entities(scores, answers), weights)
        return loss


class AnswersObjective(TripleObjective):
    """All answers of each distinct question among all entities (Dettmers et al., AAAI 2018, with binary cross-entropy).

    An example is a question (entity, relation, direction): direction 0 asks for tails, 1 for heads. All answers lie on
    the model's device, one question's after the other's.
    """

    def __init__(
        self,
        model: TripleModel,
        triples: Triples,
        index: TripleIndex,
        loss: Loss,
        regularizer: Regularizer,
    ) -> None:
        tails = np.unique(triples[:, [HEAD, RELATION]], axis=0)
        questions = [np.column_stack([tails, np.zeros(len(tails), tails.dtype)])]
        answers = [index.tails(tails[:, 0], tails[:, 1])]
        if not model.reciprocal:
            heads = np.unique(triples[:, [TAIL, RELATION]], axis=0)
            questions.append(np.column_stack([heads, np.ones(len(heads), heads.dtype)]))
            answers.append(index.heads(heads[:, 1], heads[:, 0]))
        super().__init__(model, np.concatenate(questions), loss, regularizer)
        self.keys = self._key(self.examples[:])  # ascending, as the examples are
        self.counts = torch.from_numpy(np.concatenate([np.diff(x.offsets) for x in answers])).to(model.device)
        self.starts = self.counts.cumsum(0) - self.counts
        self.answers = torch.from_numpy(np.concatenate([x.entities for x in answers])).to(model.device)

    def forward(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        questions = batch[batch[:, 2].argsort(stable=True)]
        numbers = torch.searchsorted(self.keys, self._key(questions))
        # Both sizes at once: a GPU is waited for.
        total, for_heads = torch.stack([self.counts[numbers].sum(), questions[:, 2].sum()]).tolist()
        ask_tails, ask_heads = questions.split([len(questions) - for_heads, for_heads])
        parts = []
        if len(ask_tails):
            parts.append(self.model.score_tails(ask_tails[:, 0], ask_tails[:, 1]))
        if len(ask_heads):
            parts.append(self.model.score_heads(ask_heads[:, 1], ask_heads[:, 0]))
        answered = self._answered(numbers, total)
        if self.weights is not None:
            answered = answered._replace(weights=self.weights.of(self._triples(questions, answered)))
        loss = self.function.reduce(self.function.of_answers(torch.cat(parts), answered))
        if self.loss.relation_weight:
            triples = self._triples(questions, answered)
            loss = loss + self._relation_loss(triples, self.weights_of(triples), self.model)
        return self._penalised(loss, torch.stack([batch[:, 0], batch[:, 1], batch[:, 0]], dim=1), self.model)

    @staticmethod
    def _triples(questions: Tensor, answered: Answered) -> Tensor:
        """The triples (n, 3) that questions (B, 3) and their answers are."""
        entities, relations, direction = questions[answered.rows].unbind(1)
        asks_tail = direction == 0
        heads, tails = (torch.where(chosen, entities, answered.entities) for chosen in (asks_tail, ~asks_tail))
        return torch.stack([heads, relations, tails], dim=1)

    def _key(self, questions: Tensor) -> Tensor:
        """One number per question."""
        entities, relations, direction = questions.unbind(1)
        return (direction * len(self.model.entities) + entities) * len(self.model.relations) + relations

    def _answered(self, numbers: Tensor, total: int) -> Answered:
        """All answers, ``total`` of them, of the questions with these numbers (B,)."""
        counts = self.counts[numbers]
        rows = torch.repeat_interleave(counts, output_size=total)
        before = counts.cumsum(0) - counts
        positions = torch.arange(total, device=rows.device) + (self.starts[numbers] - before)[rows]
        return Answered(rows, self.answers[positions], counts)
