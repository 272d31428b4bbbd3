"""A trained run as a ranker of a log: the scores that an evaluation and the blend are made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from capse.arrays import Bools, Float32s, Float64s, Int64s
from capse.kernels.workspace import chunk_size
from capse.models import PersonalModel, Scorer
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

    Where the run's `Standing` says so a list stays in the engine's order. A blend has the engine's rank already, and
    wants the ``model``'s score of those lists too.
    """

    run: SearchRun
    knows_user: bool = True
    knows_query: bool = True
    ranks: Literal["standing", "model"] = "standing"

    @property
    def name(self) -> str:
        return self.run.method

    def score(self, log: SearchLog, impressions: Int64s, cutoffs: Int64s) -> Float64s:
        """Scores aligned with ``log.rows(impressions)``, list by list as a service has them, so to the same bits."""
        vectors, model = self.run.space.vectors(log), self.run.model
        users = UserVectors.of(log, vectors, cutoffs, self.run.profile, self.run.numbers)
        offsets: Float32s = model.offsets.detach().cpu().numpy()
        scorer, nothing = model.scorer.cpu().eval(), np.zeros(self.run.width, np.float32)
        found, done = np.empty(int(log.lengths[impressions].sum())), 0
        for impression in impressions.tolist():
            rows = slice(log.offsets[impression], log.offsets[impression + 1])
            order = np.argsort(log.position[rows], kind="stable")
            shown = vectors.documents[log.document[rows][order]]
            user = users.profiles[impression]
            if users.rows[impression] >= 0:
                user = user + offsets[users.rows[impression]]
            query = self.run.space.query(log.queries[log.query[impression]], shown)
            given = query if self.knows_query else nothing, user if self.knows_user else nothing
            found[done + order] = score_list(scorer, *given, shown)
            done += len(order)
        if self.ranks == "model":
            return found
        position = log.position[log.rows(impressions)].astype(np.float64)
        return self.run.standing.applied(found, position, users.known[impressions], log.lengths[impressions])

    def without_user(self) -> NeuralRanker:
        """The same model with a user vector of zeros, for everybody."""
        return replace(self, knows_user=False, ranks="model")

    def document_only(self) -> NeuralRanker:
        """The same model with nothing but the document: user and query vectors of zeros."""
        return replace(self, knows_user=False, knows_query=False, ranks="model")


def score_list(scorer: Scorer, query: Float32s, user: Float32s, documents: Float32s) -> Float32s:
    """Scores (r,) of documents (r, k) for the vectors of a query and of a user.

    Documents with equal vectors are scored once, so that they tie exactly.
    """
    first: dict[bytes, int] = {}  # by its numbers, each vector's place among the distinct ones
    places = [first.setdefault(vector.tobytes(), len(first)) for vector in documents + 0.0]  # −0.0 and 0.0 are one
    distinct = documents if len(first) == len(documents) else documents[[places.index(n) for n in first.values()]]
    with torch.inference_mode():
        scores = scorer.score_triples(*map(torch.from_numpy, (query, user, distinct))).numpy()
    found: Float32s = scores[places]
    return found


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
