"""Rules: what other facts about two entities say about a third, counted and not learned.

A model without vectors: it keeps the training facts and the rules that they obey, and scores (h, r, t) by the most
confident rule of r whose body joins h to t, 0 where there is none. It is the least that an embedding has to beat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from capse.arrays import Float32s, Int64s
from capse.errors import SettingsError
from capse.models.base import ModelSettings, Scorer, TripleModel
from capse.triples import TripleIndex

_ROWS = 64  # questions that are answered at a time


@dataclass(frozen=True)
class Rules(ModelSettings):
    """Settings of the rule baseline."""

    dim: ClassVar[int] = 0  # type: ignore[misc]  # there are no vectors
    reciprocal: ClassVar[bool] = False  # type: ignore[misc]
    self_loops: ClassVar[bool] = False  # type: ignore[misc]

    kinds: Literal["inverse", "all"] = "inverse"  # r(y, x) and s(y, x) say r(x, y); all: s(x, y) and paths of two too
    least_support: int = 2  # pairs of entities for which a rule's body and what it says both hold, at least
    least_confidence: float = 0.1  # of the pairs for which its body holds, the share for which what it says holds too
    doubt: float = 5.0  # pairs added to those for which a rule does not hold: few examples make no sure rule

    def __post_init__(self) -> None:
        if not 0 <= self.least_confidence <= 1:
            raise SettingsError(f"model.least_confidence is {self.least_confidence}", "choose a share from 0 to 1")
        if self.least_support < 1 or self.doubt < 0:
            raise SettingsError("model.least_support is below 1 or model.doubt below 0", "choose more")


class _NoVectors(Scorer):
    """Stands where other models have a formula over vectors."""

    Settings = Rules
    entity_width = relation_width = 0
    floats_per_triple = 64
    quick_relations = False
    rounds_scores = True  # counts are exact already

    def score_triples(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        raise NotImplementedError("rules look at entities, not at vectors")

    def initialise(self, entities: Tensor, relations: Tensor) -> None:
        """There is nothing to fill."""


class RuleModel(TripleModel):
    """f(h, r, t) = max over the rules of r whose body joins h to t of support / (pairs that the body joins + doubt).

    A rule is a row of ``rules`` (m, 5): its relation, then one or two steps, each a relation and 1 for forwards or 0
    for backwards; −1 where there is no second step. ``confidences`` (m,) are what it scores.
    """

    Settings = Rules
    citation = "Dettmers et al., Convolutional 2D Knowledge Graph Embeddings, AAAI 2018 (their inverse model)"

    facts: Tensor
    rules: Tensor
    confidences: Tensor

    def __init__(self, settings: Rules, entities: int, relations: int) -> None:
        super().__init__(_NoVectors(), entities, relations)
        self.settings = settings
        self.register_buffer("facts", torch.empty(0, 3, dtype=torch.long))
        self.register_buffer("rules", torch.empty(0, 5, dtype=torch.long))
        self.register_buffer("confidences", torch.empty(0))
        self._known: TripleIndex | None = None

    def learn(self, facts: Int64s, rules: Int64s, confidences: Float32s) -> None:
        """Keep facts (n, 3), rules (m, 5) and their confidences (m,)."""
        self.facts, self.rules = torch.from_numpy(facts), torch.from_numpy(rules)
        self.confidences = torch.from_numpy(confidences)
        self._known = None

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        for name in ("facts", "rules", "confidences"):  # as many as were saved
            if isinstance(state_dict.get(name), Tensor):
                setattr(self, name, torch.empty_like(state_dict[name]))
        self._known = None
        return super().load_state_dict(state_dict, *args, **kwargs)

    def score_tails(self, heads: Tensor, relations: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self._answer(heads, relations, candidates, forwards=True)

    def score_heads(self, relations: Tensor, tails: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self._answer(tails, relations, candidates, forwards=False)

    def score_triples(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        heads, relations, tails = torch.broadcast_tensors(heads, relations, tails)
        rows = zip(*(part.reshape(-1).split(_ROWS) for part in (heads, relations, tails)), strict=True)
        scores = [self.score_tails(h, r).gather(1, t[:, None])[:, 0] for h, r, t in rows]
        return (torch.cat(scores) if scores else self.confidences.new_empty(0)).view(heads.shape)

    def score_relations(self, heads: Tensor, tails: Tensor, *, inverses: bool = False) -> Tensor:
        assert not inverses, "rules have no reciprocal relations"
        every = torch.arange(self.relation_count, device=self.device)
        return self.score_triples(heads[:, None], every, tails[:, None])

    def _answer(self, entities: Tensor, relations: Tensor, candidates: Tensor | None, *, forwards: bool) -> Tensor:
        """Scores (B, C) of the ends that are reached from the entities (B,), or the starts where not ``forwards``."""
        scores = np.zeros((len(entities), len(self.entities)), np.float32)
        given, asked = entities.cpu().numpy(), relations.cpu().numpy()
        for relation in np.unique(asked):
            rules = (self.rules[:, 0] == int(relation)).nonzero()[:, 0]
            ordered = rules[self.confidences[rules].argsort()].tolist()  # the most confident is written last
            for rows in self._parts(np.flatnonzero(asked == relation)):
                for place in ordered:
                    steps = self._steps(place)
                    path = steps if forwards else [(step, not ahead) for step, ahead in reversed(steps)]
                    found, ends = self._walk(given[rows], path)
                    scores[rows[found], ends] = float(self.confidences[place])
        table = torch.from_numpy(scores).to(entities.device)
        return table if candidates is None else table[:, candidates]

    def _walk(self, starts: Int64s, path: Sequence[tuple[int, bool]]) -> tuple[Int64s, Int64s]:
        """Where a path leads from each start: rows of starts, and entities."""
        rows, entities = np.arange(len(starts)), np.asarray(starts, np.int64)
        for relation, forwards in path:
            relations = np.full(len(entities), relation)
            index = self._index()
            ends = index.tails(entities, relations) if forwards else index.heads(relations, entities)
            rows, entities = np.repeat(rows, np.diff(ends.offsets)), ends.entities
        return rows, entities

    def _steps(self, place: int) -> list[tuple[int, bool]]:
        _, first, first_ahead, second, second_ahead = self.rules[place].tolist()
        steps = [(first, bool(first_ahead)), (second, bool(second_ahead))]
        return steps[: 1 if second < 0 else 2]

    def _parts(self, rows: Int64s) -> Iterator[Int64s]:
        for start in range(0, len(rows), _ROWS):
            yield rows[start : start + _ROWS]

    def _index(self) -> TripleIndex:
        if self._known is None:
            self._known = TripleIndex(self.facts.cpu().numpy(), len(self.entities), self.relation_count)
        return self._known
