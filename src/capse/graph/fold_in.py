"""Vectors for new entities from their facts, everything else frozen: folding in.

A new entity v begins as the mean of what it is like: of the entities that have its place in training triples with the
same relation and the same other end, or failing that with the same relation. Then its vector, and no other number,
takes steps down what training's loss would be: both questions of each of its facts, for the other end among drawn
entities, new ones included, and for v itself among all that were there, whose scores are known already; and questions q
of training, drawn for all Q of them, none of which asks for a new entity V. For (h, r, v):

    L = −log softmax_t f(v, r⁻¹, ·)[h] − log [ e^{f(h, r, v)} / (e^{f(h, r, v)} + Σ_e e^{f(h, r, e)}) ]
        + w (Q / drawn) Σ_q log [ 1 + Σ_V e^{f(q, V)} / Σ_e e^{f(q, e)} ]

Without the last term a new entity scores high everywhere, and stands before the right answers of other questions. Its
weight w is 1 in training; what the few facts of a new entity do not say may be true all the same, so it is less here.

New entities are folded in together, so that facts may join them to each other. Nothing that was there before changes.

Practices of the kind go back to folding in for latent semantic indexing (Berry, Dumais and O'Brien 1995).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from capse.arrays import Int64s
from capse.errors import DataError, SettingsError
from capse.kernels.workspace import chunk_size
from capse.models import TripleModel
from capse.models.rules import RuleModel
from capse.triples import HEAD, RELATION, TAIL, TripleIndex


@dataclass(frozen=True)
class FoldIn:
    """Settings of folding in."""

    steps: int = 60  # down the loss
    rate: float = 0.3  # of Adagrad, in root mean squares of the entities' numbers
    negatives: int = 1024  # entities that the other end of a fact is scored against, drawn anew for each step
    questions: int = 1024  # of training, which new entities are not to answer
    absence: float = 0.3  # w, their weight
    pull: float = 0.1  # weight of the squared distance from where a vector began
    seed: int = 0  # of what is drawn

    def __post_init__(self) -> None:
        if (
            self.steps < 0
            or self.negatives < 1
            or self.questions < 2
            or self.rate <= 0
            or min(self.pull, self.absence) < 0
        ):
            raise SettingsError("settings of folding in that make no sense", "give positive numbers")


@dataclass(frozen=True)
class Background:
    """Questions of training, none of which asks for a new entity: the same for all that is folded into a model."""

    questions: list[tuple[Tensor, Tensor, bool, Tensor]]  # of an entity: it, relation, backwards, log Σ of all entities
    weigh: float  # how much each counts

    @classmethod
    def of(cls, model: TripleModel, train: TripleIndex, settings: FoldIn) -> Background:
        some, most = train.triples, settings.questions // 2
        if len(some) > most:
            places = np.random.default_rng(settings.seed).choice(len(some), most, replace=False)
            some = some[np.sort(places)]
        heads, relations, tails = torch.from_numpy(some.astype(np.int64)).to(model.device).unbind(1)
        questions = [
            (asking, relations, backwards, _sums(model, asking, relations, backwards))
            for asking, backwards in ((heads, False), (tails, True))
        ]
        return cls(questions, settings.absence * len(train.triples) / max(len(some), 1))


@torch.no_grad()
def _sums(model: TripleModel, asking: Tensor, relations: Tensor, backwards: bool) -> Tensor:
    """log Σ e^f over all entities as answers, (B,)."""
    sums = []
    size = max(1, chunk_size(model.entity_count, model.device) // 4)
    for ids, some in zip(asking.split(size), relations.split(size), strict=True):
        scores = model.score_heads(some, ids) if backwards else model.score_tails(ids, some)
        sums.append(torch.logsumexp(scores, dim=1))
    return torch.cat(sums) if sums else model.entities.new_empty(0)


def fold_in(
    model: TripleModel,
    facts: Int64s,
    train: TripleIndex,
    settings: FoldIn | None = None,
    progress: Callable[[int, int], None] | None = None,
    begin: Mapping[int, Tensor] | None = None,
    background: Background | None = None,
) -> Tensor:
    """Vectors (n, width) of the new entities that ``facts`` (m, 3) speak of: ids from the model's number of them on.

    ``train`` is what the model was trained on. Every new entity needs a fact, or a vector to ``begin`` with, by id.
    The ``background`` is made where it is not given.
    """
    settings, entities, begin = settings or FoldIn(), train.entities, begin or {}
    ends = np.concatenate([facts[:, HEAD], facts[:, TAIL], np.array([*begin], np.int64)])
    count = int(ends.max(initial=entities - 1)) + 1 - entities
    missing = np.setdiff1d(np.arange(entities, entities + count), ends)
    if len(missing):
        raise DataError(f"new entity {missing[0]} is in no fact", "give every new entity a fact")
    if not count or isinstance(model, RuleModel):  # which has no vectors
        return model.entities.detach().new_empty(count, model.entities.shape[1])
    facts = facts[(facts[:, HEAD] >= entities) | (facts[:, TAIL] >= entities)]
    start = _starts(model, count, facts, train)
    for entity, vector in begin.items():
        start[entity - entities] = vector
    if not len(facts) or not settings.steps:
        return start
    questions = _Questions(model, facts, background or Background.of(model, train, settings))
    return _descend(questions, start, settings, progress)


def _starts(model: TripleModel, count: int, facts: Int64s, train: TripleIndex) -> Tensor:
    """Where each new vector begins, (n, width): the mean over its facts of the mean of those that it is like."""
    entities, table = train.entities, model.entities.detach()
    total, weight = table.new_zeros(count, table.shape[1]), table.new_zeros(count, 1)
    for side, other in ((HEAD, TAIL), (TAIL, HEAD)):
        for fact in facts[facts[:, side] >= entities]:
            alike = _alike(train, fact, side, other)
            if len(alike):
                total[fact[side] - entities] += table[torch.from_numpy(alike).to(table.device)].mean(dim=0)
                weight[fact[side] - entities] += 1
    return torch.where(weight > 0, total / weight.clamp(min=1), table.mean(dim=0))


def _alike(train: TripleIndex, fact: Int64s, side: int, other: int) -> Int64s:
    relation, end = fact[RELATION : RELATION + 1], fact[other : other + 1]
    if end[0] < train.entities:
        same = train.heads(relation, end) if side == HEAD else train.tails(end, relation)
        if len(same.entities):
            return same.entities
    triples = train.triples
    return np.unique(triples[triples[:, RELATION] == relation[0], side]).astype(np.int64)


def _descend(
    questions: _Questions, start: Tensor, settings: FoldIn, progress: Callable[[int, int], None] | None
) -> Tensor:
    model, table = questions.model, questions.table
    vectors = start.clone().requires_grad_()
    size = float(table.square().mean().sqrt())
    squares = torch.zeros_like(start)  # Adagrad by hand: torch's optimisers take seconds to import
    generator = torch.Generator().manual_seed(settings.seed)
    entities = len(table) + len(start)
    for step in range(settings.steps):
        drawn = torch.arange(entities)
        if entities > settings.negatives:
            drawn = torch.randint(entities, (settings.negatives,), generator=generator)
        drawn = drawn.to(table.device)
        loss = questions.loss(vectors, drawn) + settings.pull * (vectors - start).square().sum() / size**2
        (gradient,) = torch.autograd.grad(loss, vectors)
        if not torch.isfinite(gradient).all():
            raise DataError("the new vectors diverged", "lower the rate of folding in")
        with torch.no_grad():
            squares += gradient.square()
            vectors -= settings.rate * size * gradient / (squares.sqrt() + 1e-10)
            model.scorer.constrain(vectors, model.relations.detach().clone())
        if progress:
            progress(step + 1, settings.steps)
    return vectors.detach()


class _Questions:
    """Both questions of each fact, about the other end and about the new entity itself; and the background."""

    def __init__(self, model: TripleModel, facts: Int64s, background: Background) -> None:
        self.model, self.background = model, background
        self.table = model.entities.detach()
        self.entities = len(self.table)
        heads, relations, tails = torch.from_numpy(facts.copy()).to(model.device).unbind(1)
        self.asked: list[tuple[Tensor, Tensor, Tensor, bool]] = []  # of a new entity: it, relation, answer, backwards
        self.answered: list[tuple[Tensor, Tensor, Tensor, bool, Tensor]] = []  # by a new one, and log Σ of all others
        for asking, answers, backwards in ((heads, tails, False), (tails, heads, True)):
            new = asking >= self.entities
            self.asked.append((asking[new], relations[new], answers[new], backwards))
            old = asking[~new], relations[~new]
            self.answered.append((*old, answers[~new], backwards, _sums(model, *old, backwards)))

    def loss(self, vectors: Tensor, drawn: Tensor) -> Tensor:
        """The loss of all questions; ``drawn`` are ids of entities, old or new, that stand for all."""
        total = vectors.new_zeros(())
        weigh = float(np.log((self.entities + len(vectors)) / len(drawn)))
        candidates = self._rows(drawn, vectors)
        for asking, relations, answers, backwards in self.asked:
            if len(asking):
                right = self._pairs(self._rows(asking, vectors), relations, self._rows(answers, vectors), backwards)
                others = self._against(self._rows(asking, vectors), relations, candidates, backwards) + weigh
                others = others.masked_fill(drawn == answers[:, None], -torch.inf)
                total = total + (torch.logsumexp(torch.cat([right[:, None], others], dim=1), dim=1) - right).sum()
        for asking, relations, answers, backwards, rest in self.answered:
            if len(asking):
                right = self._pairs(self.table[asking], relations, self._rows(answers, vectors), backwards)
                total = total + torch.nn.functional.softplus(rest - right).sum()
        for asking, relations, backwards, rest in self.background.questions:
            new = torch.logsumexp(self._against(self.table[asking], relations, vectors, backwards), dim=1)
            total = total + self.background.weigh * torch.nn.functional.softplus(new - rest).sum()
        return total

    def _rows(self, ids: Tensor, vectors: Tensor) -> Tensor:
        """The vectors of old and new entities, (B, width)."""
        old = self.table[ids.clamp(max=self.entities - 1)]
        return torch.where((ids >= self.entities)[:, None], vectors[(ids - self.entities).clamp(min=0)], old)

    def _pairs(self, asking: Tensor, relations: Tensor, answers: Tensor, backwards: bool) -> Tensor:
        """f of each question with its answer, (B,)."""
        r = self._relation(relations, backwards)
        if backwards and not self.model.reciprocal:
            return self.model.scorer.score_triples(answers, r, asking)
        return self.model.scorer.score_triples(asking, r, answers)

    def _against(self, asking: Tensor, relations: Tensor, candidates: Tensor, backwards: bool) -> Tensor:
        """f of each question with every candidate, (B, C)."""
        r = self._relation(relations, backwards)
        if backwards and not self.model.reciprocal:
            return self.model.scorer.score_heads(r, asking, candidates)
        return self.model.scorer.score_tails(asking, r, candidates)

    def _relation(self, relations: Tensor, backwards: bool) -> Tensor:
        turned = backwards and self.model.reciprocal
        return self.model.relation(relations + self.model.relation_count if turned else relations).detach()
