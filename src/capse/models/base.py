"""What a model is: a scorer over vectors, and tables that turn ids into vectors.

A `Scorer` is a scoring function f(h, r, t) on vectors. It knows neither entities nor graphs, so search personalisation
can feed it (query, user, document) as well. A `TripleModel` joins a scorer with an entity and a relation table and is
what gets trained, saved and asked.

A score is always higher-is-better. Directions are named for what is free: ``score_triples``, ``score_tails``,
``score_heads``, ``score_relations``. A scorer writes the first; the others are derived, and overridden where there is a
faster way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from capse.errors import SettingsError
from capse.kernels.embedding import embedding
from capse.kernels.workspace import in_chunks
from capse.runs.settings import Section, check_choices


@dataclass(frozen=True)
class ModelSettings(Section):
    """Settings that every model has; a model adds its own in a subclass."""

    dim: int = 100  # k, the size of an embedding
    reciprocal: bool = False  # give every relation an inverse of its own and ask for heads as tails of that inverse

    def __post_init__(self) -> None:
        if self.dim < 1:
            raise SettingsError(f"model.dim is {self.dim}", "choose a size of 1 or more")
        check_choices(self, "model")


def check_filters(count: int) -> None:
    """Refuse a convolution without filters."""
    if count < 1:
        raise SettingsError(f"model.filters is {count}", "choose 1 filter or more")


def check_dropout(key: str, share: float) -> None:
    """Refuse a dropout that would drop everything, or less than nothing."""
    if not 0 <= share < 1:
        raise SettingsError(f"model.{key} is {share}", "choose a share from 0 up to, but not, 1")


class Contributions(NamedTuple):
    """What each dimension adds to the score, or to a number that the score rises with."""

    values: Tensor  # (..., k); what is positive speaks for the triple
    of: str = "the score"  # what they sum to


class Scorer(nn.Module, ABC):
    """A scoring function on vectors: higher means more plausible."""

    Settings: ClassVar[type[ModelSettings]]
    citation: ClassVar[str]

    entity_width: int  # floats an entity needs
    relation_width: int  # floats a relation needs
    floats_per_triple: int  # temporaries that scoring one triple needs, so that derived directions stay within bounds
    rounds_scores: bool = False  # whether to lose digits is part of the model, so that float64 would be another model

    @abstractmethod
    def score_triples(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """Scores of triples given as vectors (..., width) whose leading dimensions broadcast."""

    def score_rows(
        self, entities: Tensor, relations: Tensor, heads: Tensor, relation_ids: Tensor, tails: Tensor
    ) -> Tensor | None:
        """The same straight from tables and ids that broadcast, or None where a model has no quicker way."""
        return None

    def contributions(self, h: Tensor, r: Tensor, t: Tensor) -> Contributions | None:
        """What each dimension adds to the scores of `score_triples`; None where they are no sums over dimensions."""
        return None

    def score_tails(self, h: Tensor, r: Tensor, candidates: Tensor) -> Tensor:
        """Scores (B, C) of every candidate (C, width) as the tail of each pair h (B, width), r (B, width)."""
        return self._chunked(lambda part: self.score_triples(h[:, None], r[:, None], part), len(h), candidates)

    def score_heads(self, r: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        """Scores (B, C) of every candidate (C, width) as the head of each pair r (B, width), t (B, width)."""
        return self._chunked(lambda part: self.score_triples(part, r[:, None], t[:, None]), len(t), candidates)

    def score_relations(self, h: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        """Scores (B, C) of every candidate (C, width) as the relation between h (B, width) and t (B, width)."""
        return self._chunked(lambda part: self.score_triples(h[:, None], part, t[:, None]), len(h), candidates)

    def _chunked(self, score: Callable[[Tensor], Tensor], queries: int, candidates: Tensor) -> Tensor:
        return in_chunks(score, candidates, queries * self.floats_per_triple)

    def initialise(self, entities: Tensor, relations: Tensor) -> None:
        """Fill fresh tables with this model's usual start."""
        nn.init.xavier_uniform_(entities)
        nn.init.xavier_uniform_(relations)

    def adapt(self, entities: Tensor, relations: Tensor) -> None:
        """Called once, with the tables as training finds them: a start that depends on the vectors is made here."""

    def inverse(self, relations: Tensor) -> Tensor | None:
        """The vectors of the inverse relations, f(h, r, t) = f(t, inverse of r, h); None where there are none."""
        return None

    def constrain(self, entities: Tensor, relations: Tensor) -> None:
        """Restore the model's constraints on its tables, in place, after an optimiser step."""

    def penalised(self) -> Iterable[Tensor]:
        """The weights that ``regularizer.weights`` is about."""
        return self.parameters()

    def magnitudes(self, vectors: Tensor) -> Tensor:
        """The absolute values that N3 cubes; complex models give the modulus of each number."""
        return vectors.abs()


class Model(nn.Module):
    """A scorer with tables of vectors that training changes; which tables, a subclass says."""

    scorer: Scorer

    @property
    def tables(self) -> list[nn.Parameter]:
        """The tables that are trained."""
        raise NotImplementedError

    @property
    def device(self) -> torch.device:
        return self.tables[0].device

    def constrain(self) -> None:
        """Restore the scorer's constraints on the tables."""


class TripleModel(Model):
    """A scorer with an entity table (E, entity_width) and a relation table (R, relation_width).

    With reciprocal relations the relation table has 2R rows, row R + r being the inverse of r, and
    ``score_heads(r, t)`` asks for the tails of (t, inverse of r).
    """

    settings: ModelSettings | None = None  # those that `build_model` built it from

    def __init__(self, scorer: Scorer, entities: int, relations: int, *, reciprocal: bool = False) -> None:
        super().__init__()
        self.scorer = scorer
        self.relation_count = relations
        self.reciprocal = reciprocal
        self._distinct: tuple[tuple[int, int], tuple[Tensor, Tensor] | None] | None = None
        self.entities = nn.Parameter(torch.empty(entities, scorer.entity_width))
        self.relations = nn.Parameter(torch.empty(relations * (2 if reciprocal else 1), scorer.relation_width))
        with torch.no_grad():
            scorer.initialise(self.entities, self.relations)
            self.constrain()

    @property
    def tables(self) -> list[nn.Parameter]:
        return [self.entities, self.relations]

    def score_triples(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Scores of triples given as ids whose shapes broadcast."""
        return self.score_from(self.entities, self.relations, heads, relations, tails)

    def score_from(
        self, entities: Tensor, relations: Tensor, heads: Tensor, relation_ids: Tensor, tails: Tensor
    ) -> Tensor:
        """The same with other tables in place of the model's own."""
        scores = self.scorer.score_rows(entities, relations, heads, relation_ids, tails)
        if scores is not None:
            return scores
        both = torch.cat([heads.reshape(-1), tails.reshape(-1)])  # one gather, and so one gradient, for both sides
        h, t = embedding(entities, both).split([heads.numel(), tails.numel()])
        r = embedding(relations, relation_ids)
        return self.scorer.score_triples(h.view(*heads.shape, -1), r, t.view(*tails.shape, -1))

    def score_tails(self, heads: Tensor, relations: Tensor, candidates: Tensor | None = None) -> Tensor:
        """Scores (B, E) of all entities, or of ``candidates``, as tails of (heads (B,), relations (B,))."""
        h, r = self.entity(heads), self.relation(relations)
        return self._against(candidates, lambda vectors: self.scorer.score_tails(h, r, vectors))

    def score_heads(self, relations: Tensor, tails: Tensor, candidates: Tensor | None = None) -> Tensor:
        """Scores (B, E) of all entities, or of ``candidates``, as heads of (relations (B,), tails (B,))."""
        if self.reciprocal:
            return self.score_tails(tails, relations + self.relation_count, candidates)
        r, t = self.relation(relations), self.entity(tails)
        return self._against(candidates, lambda vectors: self.scorer.score_heads(r, t, vectors))

    def score_relations(self, heads: Tensor, tails: Tensor) -> Tensor:
        """Scores (B, R) of all relations, inverses apart, between heads (B,) and tails (B,)."""
        h, t = self.entity(heads), self.entity(tails)
        return self.scorer.score_relations(h, t, self.relations[: self.relation_count])

    def _against(self, candidates: Tensor | None, score: Callable[[Tensor], Tensor]) -> Tensor:
        if candidates is not None:
            return score(self.entity(candidates))
        if torch.is_grad_enabled():
            return score(self.entities)
        distinct = self._distinct_entities()
        return score(self.entities) if distinct is None else score(distinct[0])[:, distinct[1]]

    def _distinct_entities(self) -> tuple[Tensor, Tensor] | None:
        """The distinct rows of the entity table and each entity's row among them; None where all are distinct.

        A matrix product may round the same dot product differently at its edges, so entities with equal vectors are
        scored once: they tie exactly, wherever they stand.
        """
        version = (self.entities.data_ptr(), self.entities._version)
        if self._distinct is None or self._distinct[0] != version:
            rows, inverse = distinct_rows(self.entities.detach())
            self._distinct = (version, None if len(rows) == len(self.entities) else (rows, inverse))
        return self._distinct[1]

    def adapt(self) -> None:
        """Let the scorer look at the tables, once, when they are as training finds them."""
        self.scorer.adapt(self.entities.detach(), self.relations.detach())

    def entity(self, ids: Tensor) -> Tensor:
        return embedding(self.entities, ids)

    def relation(self, ids: Tensor) -> Tensor:
        return embedding(self.relations, ids)

    @torch.no_grad()
    def constrain(self) -> None:
        self.scorer.constrain(self.entities, self.relations)


def distinct_rows(table: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows of a table (n, k), in order of first appearance, and the place (n,) of each row among them."""
    rows = np.ascontiguousarray(table.cpu().numpy() + 0.0)  # −0.0 and 0.0 are one number
    whole = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, inverse = np.unique(whole, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    keep = torch.from_numpy(first[order]).to(table.device)
    return table[keep], torch.from_numpy(place[inverse]).to(table.device)
