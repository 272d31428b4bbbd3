"""The same scorers over (query, user, document): two vectors are given, the user's follows the clicks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from capse.models.base import Model, Scorer


class PersonalModel(Model):
    """A scorer with a table of offsets (U, k), one for each user that training knows.

    A user's vector is the live profile plus the offset: it can be learned, and it follows the next click. A user whom
    training does not know has the number −1 and no offset.
    """

    def __init__(self, scorer: Scorer, users: int) -> None:
        super().__init__()
        self.scorer = scorer
        self.offsets = nn.Parameter(torch.zeros(users, scorer.relation_width))

    @property
    def tables(self) -> list[nn.Parameter]:
        return [self.offsets]

    def score_lists(self, queries: Tensor, profiles: Tensor, users: Tensor, documents: Tensor) -> Tensor:
        """Scores (B, C) of documents (B, C, k) for queries (B, k) by users (B,) with profiles (B, k)."""
        return self.scorer.score_triples(queries.unsqueeze(1), self.user(profiles, users).unsqueeze(1), documents)

    def user(self, profiles: Tensor, users: Tensor) -> Tensor:
        """User vectors (B, k): profile plus offset."""
        if not len(self.offsets):
            return profiles
        known = (users >= 0).unsqueeze(1)
        return profiles + torch.where(known, self.offsets[users.clamp(min=0)], 0.0)
