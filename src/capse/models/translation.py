"""The translation family: a relation carries the head, after a projection, to the tail.

    f(h, r, t) = −‖P_r,head(h) + d_r − P_r,tail(t)‖_p,   p = 1 or 2

TransE projects by the identity; TransH, TransR, TransD and STransE each in their own way. A model of this family only
says what its projections are. Candidates are projected once for each run of queries with the same relation, so sort
queries by relation, and then compared by one distance kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from capse.kernels import fused
from capse.kernels.distances import pairwise_distances
from capse.models.base import Contributions, ModelSettings, Scorer


@dataclass(frozen=True)
class TranslationSettings(ModelSettings):
    """Settings of TransE and its descendants."""

    norm: Literal[1, 2] = 1  # p, the norm of the distance
    unit_ball: bool = True  # keep entity vectors at length 1 or less
    bounded: Literal["entities", "all"] = "entities"  # whom unit_ball is about; all: each k numbers of either table
    vector_start: Literal["uniform", "normal", "sphere"] = "uniform"
    """``uniform`` in ±6/√k, relations then of length 1; ``normal`` of deviation 1/k; ``sphere``: every k numbers of
    length 1, in any direction."""


class TranslationScorer(Scorer):
    """−‖project_heads(h, r) + d_r − project_tails(t, r)‖, where d_r is the first k numbers of r."""

    def __init__(self, settings: TranslationSettings) -> None:
        super().__init__()
        self.dim = settings.dim
        self.norm = settings.norm
        self.unit_ball = settings.unit_ball
        self.bounded = settings.bounded
        self.vector_start = settings.vector_start
        self.entity_width = self.relation_width = self.floats_per_triple = settings.dim

    def project_heads(self, h: Tensor, r: Tensor) -> Tensor:
        """P_r(h): entity vectors (..., entity_width) and relations (..., relation_width) to (..., k)."""
        return h

    def project_tails(self, t: Tensor, r: Tensor) -> Tensor:
        """P_r(t), the same as for heads unless a model distinguishes them."""
        return self.project_heads(t, r)

    def score_triples(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        distance: Tensor = torch.linalg.vector_norm(self._difference(h, r, t), ord=self.norm, dim=-1)
        return -distance

    def contributions(self, h: Tensor, r: Tensor, t: Tensor) -> Contributions:
        """With x = P_r,head(h) + d_r − P_r,tail(t): −|x_i| where p = 1, −x_i²/‖x‖₂ where p = 2; none speaks for it."""
        x = self._difference(h, r, t)
        return Contributions(-x.abs() if self.norm == 1 else -x * nn.functional.normalize(x, dim=-1))

    def _difference(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        return self.project_heads(h, r) + r[..., : self.dim] - self.project_tails(t, r)

    def score_tails(self, h: Tensor, r: Tensor, candidates: Tensor) -> Tensor:
        targets = self.project_heads(h, r) + r[:, : self.dim]
        return self._compare(targets, r, candidates, heads=False)

    def score_heads(self, r: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        targets = self.project_tails(t, r) - r[:, : self.dim]
        return self._compare(targets, r, candidates, heads=True)

    def _compare(self, targets: Tensor, r: Tensor, candidates: Tensor, *, heads: bool) -> Tensor:
        """Distances from targets (B, k) to the candidates as each target's relation sees them."""
        project = self.project_heads if heads else self.project_tails
        if not len(targets):
            return targets.new_empty(0, len(candidates))
        _, lengths = torch.unique_consecutive(r.detach(), dim=0, return_counts=True)
        parts = zip(targets.split(lengths.tolist()), r.split(lengths.tolist()), strict=True)
        return torch.cat([-pairwise_distances(part, project(candidates, own[0]), self.norm) for part, own in parts])

    def initialise(self, entities: Tensor, relations: Tensor) -> None:
        """As Bordes et al. 2013 do, with ``normal`` near zero, as the programs KB2E and STransE do, or on a sphere."""
        if self.vector_start == "sphere":
            for vectors in self._vectors(entities, relations):
                vectors.copy_(nn.functional.normalize(nn.init.normal_(vectors), dim=1))
            return
        if self.vector_start == "normal":
            nn.init.normal_(entities, std=1 / self.dim)
            nn.init.normal_(relations, std=1 / self.dim)
            return
        bound = 6 / math.sqrt(self.dim)
        nn.init.uniform_(entities, -bound, bound)
        nn.init.uniform_(relations, -bound, bound)
        relations[:, : self.dim] = nn.functional.normalize(relations[:, : self.dim], dim=1)

    def constrain(self, entities: Tensor, relations: Tensor) -> None:
        if not self.unit_ball:
            return
        for vectors in self._vectors(entities, relations) if self.bounded == "all" else [entities]:
            if fused.is_usable(vectors):
                fused.pull_into_unit_ball(vectors, self.dim)
            else:
                lengths = torch.linalg.vector_norm(vectors[:, : self.dim], dim=1, keepdim=True)
                vectors[:, : self.dim].mul_(lengths.clamp_(min=1).reciprocal_())

    def _vectors(self, *tables: Tensor) -> list[Tensor]:
        """The tables as vectors (..., k): of TransD a row is two, its projection being one of them."""
        return [table.view(-1, self.dim) for table in tables]
