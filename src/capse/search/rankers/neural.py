"""A trained run as a ranker of a log: the scores that an evaluation and the blend are made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from capse.arrays import Bools, Float32s, Float64s, Int64s
from capse.kernels.workspace import chunk_size
from capse.models import PersonalModel
from capse.search.logs.search_log import SearchLog
from capse.search.rankers.search_run import SearchRun
from capse.search.users.profiles import user_vectors
from capse.search.users.user_state import ProfileSettings
from capse.search.vectors.vector_space import Vectors


@dataclass(frozen=True)
class UserVectors:
    """For each impression of a log, who asks: what a model is given of the user."""

    profiles: Float32s  # (n, k) what was clicked before the cutoff; zero where training gave the whole vector
    rows: Int64s  # (n,) of the model's offsets, −1 for none
    known: Bools  # (n,) whether anything at all is known

    @classmethod
    def of(
        cls, log: SearchLog, vectors: Vectors, cutoffs: Int64s, settings: ProfileSettings, numbers: dict[str, int]
    ) -> UserVectors:
        profiles, clicked = user_vectors(log, vectors.documents, cutoffs, settings.scale, settings.decay)
        rows = np.array([numbers.get(user, -1) for user in log.users], np.int64)[log.user]
        if settings.user == "trained":
            profiles[rows >= 0] = 0
        return cls(profiles, rows, clicked | (rows >= 0))


@dataclass(frozen=True)
class NeuralRanker:
    """The model of a run over the lists of a log.

    A list is in the engine's order where nothing is known of the user: neither a click before the cutoff nor an offset.
    A blend has the engine's rank already, and wants the ``model``'s score of those lists too.
    """

    run: SearchRun
    knows_user: bool = True
    knows_query: bool = True
    unknown: Literal["engine", "model"] = "engine"

    @property
    def name(self) -> str:
        return self.run.method

    def score(self, log: SearchLog, impressions: Int64s, cutoffs: Int64s) -> Float64s:
        """Scores aligned with ``log.rows(impressions)``."""
        vectors = self.run.space.vectors(log)
        users = UserVectors.of(log, vectors, cutoffs, self.run.profile, self.run.numbers)
        profiles, rows, known = users.profiles[impressions], users.rows[impressions], users.known[impressions]
        queries = vectors.queries[impressions]
        if not self.knows_user:
            profiles, rows, known = np.zeros_like(profiles), np.full_like(rows, -1), np.ones_like(known)
        if not self.knows_query:
            queries = np.zeros_like(queries)
        found = score_rows(self.run.model, log, impressions, queries, profiles, rows, vectors.documents)
        if self.unknown == "model":
            return found
        position = log.position[log.rows(impressions)].astype(np.float64)
        return np.where(np.repeat(known, log.lengths[impressions]), found, -position)

    def without_user(self) -> NeuralRanker:
        """The same model with a user vector of zeros, for everybody."""
        return replace(self, knows_user=False)

    def document_only(self) -> NeuralRanker:
        """The same model with nothing but the document: user and query vectors of zeros."""
        return replace(self, knows_user=False, knows_query=False)


@torch.no_grad()
def score_rows(
    model: PersonalModel,
    log: SearchLog,
    impressions: Int64s,
    queries: Float32s,
    profiles: Float32s,
    rows: Int64s,
    documents: Float32s,
) -> Float64s:
    """Scores of all results of these impressions, list after list, in batches of lists of about one length."""
    lengths = log.lengths[impressions]
    shown = padded_lists(log, impressions)
    found = np.empty(shown.shape)
    given = [torch.from_numpy(x).to(model.device) for x in (queries, profiles, rows, documents)]
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        width = max(int(lengths[order[start]]), 1)
        size = chunk_size(width * model.scorer.floats_per_triple, model.device)
        part = order[start : start + size]
        width = int(lengths[part[-1]])
        found[part, :width] = _score_part(model, given, part, shown[part, :width])
        start += len(part)
    return np.asarray(found[shown >= 0])


def _score_part(model: PersonalModel, given: list[Tensor], part: Int64s, shown: Int64s) -> Float64s:
    queries, profiles, rows, documents = given
    places = torch.from_numpy(part).to(model.device)
    vectors = documents[torch.from_numpy(np.maximum(shown, 0)).to(model.device)]
    scores = model.eval().score_lists(queries[places], profiles[places], rows[places], vectors)
    return np.asarray(scores.cpu().numpy(), np.float64)


def padded_lists(log: SearchLog, impressions: Int64s) -> Int64s:
    """The documents of these impressions as (L, M); −1 fills a short list up."""
    lengths = log.lengths[impressions]
    places = np.arange(max(int(lengths.max(initial=0)), 1))
    shown = np.full((len(impressions), len(places)), -1, np.int64)
    shown[places < lengths[:, None]] = log.document[log.rows(impressions)]
    return shown
