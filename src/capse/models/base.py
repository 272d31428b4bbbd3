"""What a model is: a scorer over vectors, and tables that turn ids into vectors.

A `Scorer` is a scoring function f(h, r, t) on vectors. It knows neither entities nor graphs, so search personalisation
can feed it (query, user, document) as well. A `TripleModel` joins a scorer with an entity and a relation table and is
what gets trained, saved and asked.

A score is always higher-is-better. Directions are named for what is free: ``score_triples``, ``score_tails``,
``score_heads``, ``score_relations``. A scorer writes the first; the others are derived, and overridden where there is a
faster way.
"""

from __future__ import annotations

import copy
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
from capse.models.candidates import Repeated, repeated_rows, score_rows
from capse.runs.settings import Section, check_choices
from capse.triples import HEAD, RELATION, TAIL, Triples


@dataclass(frozen=True)
class ModelSettings(Section):
    """Settings that every model has; a model adds its own in a subclass."""

    dim: int = 100  # k, the size of an embedding
    reciprocal: bool = False  # give every relation an inverse of its own and ask for heads as tails of that inverse
    self_loops: bool = False  # add to the score of (h, r, h) the log-odds of such a fact among the relation's facts

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
    wants_start: bool = False  # whether its authors begin with another model's vectors, and it learns little without
    quick_relations: bool = True  # whether all relations of a pair are scored without a network's pass for each
    blocks: tuple[int, ...] | None = None  # the widths of its parts, where vectors of several runs can fill them
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


Allocate = Callable[[int, int], Tensor]  # a table of so many rows and columns


class TripleModel(Model):
    """A scorer with an entity table (E, entity_width) and a relation table (R, relation_width).

    With reciprocal relations the relation table has 2R rows, row R + r being the inverse of r, and
    ``score_heads(r, t)`` asks for the tails of (t, inverse of r).
    """

    settings: ModelSettings | None = None  # those that `build_model` built it from

    def __init__(
        self,
        scorer: Scorer,
        entities: int,
        relations: int,
        *,
        reciprocal: bool = False,
        self_loops: bool = False,
        allocate: Allocate = torch.empty,
    ) -> None:
        """``allocate`` makes the entity table, of so many rows and columns."""
        super().__init__()
        self._others = 0  # rows of the entity table that other processes have
        self.scorer = scorer
        self.relation_count = relations
        self.reciprocal = reciprocal
        rows = relations * (2 if reciprocal else 1)
        self.loops: Tensor | None  # (R,) or (2R,) what a relation's (h, r, h) gets, see `count_self_loops`
        self.register_buffer("loops", torch.zeros(rows) if self_loops else None)
        self.answering: range | None = None  # the entities that are scored as answers, where others have the rest
        self._repeated: dict[str, tuple[tuple[int, int], Repeated | None]] = {}
        self.entities = nn.Parameter(allocate(entities, scorer.entity_width))
        self.relations = nn.Parameter(torch.empty(rows, scorer.relation_width))
        with torch.no_grad():
            scorer.initialise(self.entities, self.relations)
            self.constrain()

    @property
    def tables(self) -> list[nn.Parameter]:
        return [self.entities, self.relations]

    @property
    def entity_count(self) -> int:
        """How many entities there are, wherever their rows may be."""
        return len(self.entities) + self._others

    @property
    def quick_relations(self) -> bool:
        return self.scorer.quick_relations

    def score_triples(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Scores of triples given as ids whose shapes broadcast."""
        return self.score_from(self.entities, self.relations, heads, relations, tails)

    def score_answers(self, free: int, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Scores of triples as answers for the entity in slot ``free``: reciprocal models have one for each side."""
        if free == HEAD and self.reciprocal:
            return self.score_triples(tails, relations + self.relation_count, heads)
        return self.score_triples(heads, relations, tails)

    @property
    def has_exact_ranks(self) -> bool:
        """Whether ranks in float64 are those of the same model."""
        return not self.scorer.rounds_scores

    def score_from(
        self, entities: Tensor, relations: Tensor, heads: Tensor, relation_ids: Tensor, tails: Tensor
    ) -> Tensor:
        """The same with other tables in place of the model's own."""
        scores = self.scorer.score_rows(entities, relations, heads, relation_ids, tails)
        if scores is None:
            both = torch.cat([heads.reshape(-1), tails.reshape(-1)])  # one gather, and so one gradient, for both sides
            h, t = embedding(entities, both).split([heads.numel(), tails.numel()])
            r = embedding(relations, relation_ids)
            scores = self.scorer.score_triples(h.view(*heads.shape, -1), r, t.view(*tails.shape, -1))
        if self.loops is None:
            return scores
        return scores + torch.where(heads == tails, self.loops[relation_ids], 0.0)

    def keep_rows(self, own: range) -> None:
        """Keep these rows of the entity table alone: other processes have the others."""
        self._others = len(self.entities) - len(own)
        self.entities = nn.Parameter(self.entities.detach()[own.start : own.stop].clone())

    def map_entities(self, table: Tensor) -> None:
        """Take a whole entity table again, which may be mapped from a file."""
        self._others = 0
        self.to("cpu").entities = nn.Parameter(table)

    def over(self, entities: Tensor, relations: Tensor) -> TripleModel:
        """The same model over other tables, whose rows ids then are the places in."""
        other = copy.copy(self)
        other._parameters = {"entities": entities, "relations": relations}  # type: ignore[dict-item] # no leaves
        other._repeated = {}
        return other

    def score_tails(self, heads: Tensor, relations: Tensor, candidates: Tensor | None = None) -> Tensor:
        """Scores (B, E) of all entities, or of ``candidates``, as tails of (heads (B,), relations (B,))."""
        h, r = self.entity(heads), self.relation(relations)
        scores = self._against(candidates, lambda vectors: self.scorer.score_tails(h, r, vectors))
        return self._with_loops(scores, heads, relations, candidates)

    def score_heads(self, relations: Tensor, tails: Tensor, candidates: Tensor | None = None) -> Tensor:
        """Scores (B, E) of all entities, or of ``candidates``, as heads of (relations (B,), tails (B,))."""
        if self.reciprocal:
            return self.score_tails(tails, relations + self.relation_count, candidates)
        r, t = self.relation(relations), self.entity(tails)
        scores = self._against(candidates, lambda vectors: self.scorer.score_heads(r, t, vectors))
        return self._with_loops(scores, tails, relations, candidates)

    def score_block(
        self, free: int, given: Tensor, vectors: Tensor, relations: Tensor, block: Tensor, first: int
    ) -> Tensor:
        """Scores (B, C) of a block (C, width) of the entity table, its rows from ``first`` on, in the ``free`` slot.

        In the other one stand entities ``given`` (B,) with their ``vectors`` (B, width), which the table may lack.
        """
        if free == HEAD and self.reciprocal:
            free, relations = TAIL, relations + self.relation_count
        r = self.relation(relations)
        if free == HEAD:
            scores = self.scorer.score_heads(r, vectors, block)
        else:
            scores = self.scorer.score_tails(vectors, r, block)
        if self.loops is None:
            return scores
        places = torch.arange(first, first + len(block), device=block.device)
        return scores + torch.where(given[:, None] == places, self.loops[relations][:, None], 0.0)

    def score_relations(self, heads: Tensor, tails: Tensor, *, inverses: bool = False) -> Tensor:
        """Scores (B, R) of all relations between heads (B,) and tails (B,); of all 2R rows with ``inverses``."""
        h, t = self.entity(heads), self.entity(tails)

        def score(vectors: Tensor) -> Tensor:
            return self.scorer.score_relations(h, t, vectors)

        if inverses:
            scores = score(self.relations)
        else:
            scores = self._against_table("relations", self.relations[: self.relation_count], score)
        if self.loops is None:
            return scores
        return scores + torch.where((heads == tails)[:, None], self.loops[: scores.shape[1]], 0.0)

    def _with_loops(self, scores: Tensor, given: Tensor, relations: Tensor, candidates: Tensor | None) -> Tensor:
        """Scores (B, C) with what the candidate that is the ``given`` entity (B,) gets for being it."""
        if self.loops is None:
            return scores
        own = self.loops[relations][:, None]
        if candidates is None:
            return scores.scatter_add(1, given[:, None], own.to(scores.dtype))
        return scores + torch.where(given[:, None] == candidates, own, 0.0)

    @torch.no_grad()
    def count_self_loops(self, triples: Triples) -> None:
        """The log-odds of a fact being (h, r, h), log((l + ½) / (n − l + ½)), l of a relation's n being such.

        Nothing in a distance or a product says that an entity is seldom related to itself, and both rate it high.
        """
        if self.loops is None:
            return
        relations, reflexive = triples[:, RELATION], triples[:, HEAD] == triples[:, TAIL]
        n, loops = (np.bincount(x, minlength=self.relation_count) for x in (relations, relations[reflexive]))
        odds = torch.from_numpy(np.log((loops + 0.5) / (n - loops + 0.5))).to(self.loops)
        self.loops.copy_(odds.repeat(2) if self.reciprocal else odds)

    def _against(self, candidates: Tensor | None, score: Callable[[Tensor], Tensor]) -> Tensor:
        if candidates is not None:
            return score(self.entity(candidates))
        return self._against_table("entities", self.entities, score)

    def _against_table(self, name: str, table: Tensor, score: Callable[[Tensor], Tensor]) -> Tensor:
        if torch.is_grad_enabled():
            return score(table)
        own = range(len(table)) if name == "relations" or self.answering is None else self.answering
        return score_rows(score, table, own, self._repeated_rows(name, table))

    def _repeated_rows(self, name: str, table: Tensor) -> Repeated | None:
        """The rows of a table that have one vector, looked for again when it has changed."""
        version = (table.data_ptr(), table._version)
        if name not in self._repeated or self._repeated[name][0] != version:
            self._repeated[name] = (version, repeated_rows(table.detach()))
        return self._repeated[name][1]

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
