"""An objective turns a batch of examples into a loss.

It is an ordinary ``nn.Module`` whose forward pass is the whole differentiable part of a training step, so that
``DistributedDataParallel`` can wrap it as it is. Examples are rows of an integer tensor; what a row means is the
objective's own business.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from capse.errors import SettingsError
from capse.models import Model, TripleModel
from capse.training.losses import (
    OF_ANSWERS,
    LossSettings,
    binary_loss,
    corruption_loss,
    needs_all_entities,
    softmax_loss,
    spread_loss,
)
from capse.training.negatives import Corruptor, NegativeSettings, head_chances
from capse.training.regularizers import RegularizerSettings, penalty
from capse.triples import HEAD, RELATION, TAIL, TripleIndex, Triples


class Objective(Protocol):
    """What the loop needs."""

    examples: Tensor  # (n, ...)
    loss: LossSettings

    @property
    def model(self) -> Model: ...

    def __call__(self, batch: Tensor, generator: torch.Generator) -> Tensor: ...


def build_objective(
    model: TripleModel,
    triples: Triples,
    loss: LossSettings,
    negatives: NegativeSettings,
    regularizer: RegularizerSettings,
) -> Objective:
    """The objective that the settings describe, over training triples (n, 3)."""
    relations = model.relation_count
    if model.reciprocal:
        triples, relations = with_inverses(triples, relations), 2 * relations
    index = TripleIndex(triples, len(model.entities), relations)
    if negatives.sampler == "all":
        if loss.name in OF_ANSWERS:
            return AnswersObjective(model, triples, index, loss, regularizer)
        if loss.name == "softmax":
            return AllEntitiesObjective(model, triples, loss, regularizer)
        raise SettingsError(f"loss.name is {loss.name!r} with negatives.sampler=all", "choose softmax, bce or kl")
    if negatives.sampler == "shared":
        chances = torch.full((relations,), 0.5)
    else:
        chances = head_chances(triples, relations, negatives.sampler)
    if model.reciprocal:
        chances.zero_()  # heads are tails of the inverse triples, which are examples too
    corruptor = Corruptor(index, chances, model.device)
    kind = SharedObjective if negatives.sampler == "shared" else CorruptionObjective
    return kind(model, triples, corruptor, negatives.count, loss, regularizer)


def with_inverses(triples: Triples, relations: int) -> Triples:
    """The triples and, for each (h, r, t), its inverse (t, r + R, h)."""
    inverse = triples[:, [TAIL, RELATION, HEAD]].copy()
    inverse[:, RELATION] += relations
    return np.concatenate([triples, inverse])


class _Base(nn.Module):
    def __init__(self, model: TripleModel, examples: Triples, loss: LossSettings, regularizer: RegularizerSettings):
        super().__init__()
        self.model = model
        self.loss = loss
        self.regularizer = regularizer
        self.examples = torch.from_numpy(np.ascontiguousarray(examples)).long().to(model.device)

    def _total(self, loss: Tensor, triples: Tensor) -> Tensor:
        extra = penalty(self.regularizer, self.model, triples)
        return loss if extra is None else loss + extra


class CorruptionObjective(_Base):
    """Each true triple against corrupted versions of itself."""

    def __init__(
        self,
        model: TripleModel,
        triples: Triples,
        corruptor: Corruptor,
        count: int,
        loss: LossSettings,
        regularizer: RegularizerSettings,
    ) -> None:
        super().__init__(model, triples, loss, regularizer)
        self.corruptor = corruptor
        self.count = count
        if loss.name in OF_ANSWERS:
            raise needs_all_entities(loss)

    def forward(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        heads, relations, tails = self.versions(batch, generator)
        return self.loss_of(self.model.score_triples(heads, relations.unsqueeze(1), tails), batch)

    def loss_of(self, scores: Tensor, batch: Tensor) -> Tensor:
        """The loss of scores (B, 1 + count), the true triple's first."""
        return self._total(corruption_loss(self.loss, scores[:, 0], scores[:, 1:]), batch)

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

    def forward(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        heads, relations, tails = batch.unbind(1)
        drawn = torch.randint(len(self.model.entities), (self.count,), device=batch.device, generator=generator)
        positive = self.model.score_triples(heads, relations, tails)
        wrong_tails = self.model.score_tails(heads, relations, drawn)  # (B, count)
        known = self.corruptor.known_tails(heads, relations, drawn)
        loss = corruption_loss(self.loss, positive, wrong_tails.masked_fill(known, -torch.inf))
        if not self.model.reciprocal:
            wrong_heads = self.model.score_heads(relations, tails, drawn)
            known = self.corruptor.known_heads(relations, tails, drawn)
            loss = (loss + corruption_loss(self.loss, positive, wrong_heads.masked_fill(known, -torch.inf))) / 2
        return self._total(loss, batch)


class AllEntitiesObjective(_Base):
    """Softmax of the true tail, and of the true head, over all entities."""

    def __init__(
        self, model: TripleModel, triples: Triples, loss: LossSettings, regularizer: RegularizerSettings
    ) -> None:
        super().__init__(model, triples, loss, regularizer)

    def forward(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        heads, relations, tails = batch.unbind(1)
        loss = softmax_loss(self.loss, self.model.score_tails(heads, relations), tails)
        if not self.model.reciprocal:
            loss = (loss + softmax_loss(self.loss, self.model.score_heads(relations, tails), heads)) / 2
        return self._total(loss, batch)


class AnswersObjective(_Base):
    """All answers of each distinct question among all entities (Dettmers et al., AAAI 2018, with binary cross-entropy).

    An example is a question (entity, relation, direction): direction 0 asks for tails, 1 for heads. All answers lie on
    the model's device, one question's after the other's.
    """

    def __init__(
        self,
        model: TripleModel,
        triples: Triples,
        index: TripleIndex,
        loss: LossSettings,
        regularizer: RegularizerSettings,
    ) -> None:
        tails = np.unique(triples[:, [HEAD, RELATION]], axis=0)
        questions = [np.column_stack([tails, np.zeros(len(tails), tails.dtype)])]
        answers = [index.tails(tails[:, 0], tails[:, 1])]
        if not model.reciprocal:
            heads = np.unique(triples[:, [TAIL, RELATION]], axis=0)
            questions.append(np.column_stack([heads, np.ones(len(heads), heads.dtype)]))
            answers.append(index.heads(heads[:, 1], heads[:, 0]))
        super().__init__(model, np.concatenate(questions), loss, regularizer)
        self.keys = self._key(self.examples)  # ascending, as the examples are
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
        scores = torch.cat(parts)
        rows, answers = self._answered(numbers, total)
        if self.loss.name == "kl":
            loss = spread_loss(self.loss, scores, rows, answers, self.counts[numbers])
        else:
            labels = torch.zeros_like(scores)
            labels[rows, answers] = 1
            loss = binary_loss(self.loss, scores, labels)
        question_vectors = torch.stack([batch[:, 0], batch[:, 1], batch[:, 0]], dim=1)
        return self._total(loss, question_vectors)

    def _key(self, questions: Tensor) -> Tensor:
        """One number per question."""
        entities, relations, direction = questions.unbind(1)
        return (direction * len(self.model.entities) + entities) * len(self.model.relations) + relations

    def _answered(self, numbers: Tensor, total: int) -> tuple[Tensor, Tensor]:
        """All answers of the questions with these numbers (B,): each one's row and entity, (total,) both."""
        counts = self.counts[numbers]
        rows = torch.repeat_interleave(counts, output_size=total)
        before = counts.cumsum(0) - counts
        positions = torch.arange(total, device=rows.device) + (self.starts[numbers] - before)[rows]
        return rows, self.answers[positions]
