"""A log as lists to train on, and the validation that chooses among epochs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from capse.arrays import Float32s, Float64s, Int64s
from capse.errors import DataError
from capse.models import PersonalModel
from capse.search.evaluation.list_metrics import click_metrics, list_metrics
from capse.search.logs.search_log import SearchLog
from capse.search.rankers.neural import UserVectors, padded_lists, score_rows
from capse.search.rankers.search_run import SearchRun
from capse.search.rankers.standing import Standing
from capse.search.users.profiles import user_vectors
from capse.search.vectors.vector_space import Vectors
from capse.training.list_objective import Lists


def training_users(log: SearchLog) -> list[str]:
    """The users with a list to learn from, in order of first appearance."""
    return [log.users[number] for number in dict.fromkeys(log.user[_judged(log)].tolist())]


def training_lists(log: SearchLog, run: SearchRun, vectors: Vectors, weights: Float64s | None = None) -> Lists:
    """The judged lists of the training split, each with what was known of its user before it.

    ``weights`` (m,) are what clicks count for; their mean becomes 1, so that a learning rate means the same.
    """
    impressions = _judged(log)
    users = UserVectors.of(log, vectors, log.time, run.profile, run.numbers)
    documents = padded_lists(log, impressions)
    relevant = np.zeros(documents.shape, bool)
    relevant[documents >= 0] = log.satisfied[log.rows(impressions)]
    arrays = (vectors.queries[impressions], users.profiles[impressions], users.rows[impressions], documents, relevant)
    given = [torch.from_numpy(x).to(run.model.device) for x in (*arrays, vectors.documents)]
    lists = Lists(*given)
    if weights is None:
        return lists
    counts = np.zeros(documents.shape, np.float32)
    counts[documents >= 0] = weights[log.rows(impressions)]
    return replace(lists, weights=torch.from_numpy(counts / counts[relevant].mean()).to(run.model.device))


def start_users(model: PersonalModel, log: SearchLog, run: SearchRun, vectors: Vectors) -> None:
    """The paper's start: every user's vector is the profile at the end of the training period.

    That profile holds the answers to the very lists that it then learns from, as in the paper.
    """
    impressions = log.of_split("train")
    end = np.full(len(log), log.time[impressions].max() + 1)
    profiles, _ = user_vectors(log, vectors.documents, end, run.profile.scale, run.profile.decay)
    rows = UserVectors.of(log, vectors, log.time, run.profile, run.numbers).rows
    with torch.no_grad():
        for impression in impressions.tolist():  # in time order: a session's profile is that of the last one
            if rows[impression] >= 0:
                model.offsets[rows[impression]] = torch.from_numpy(profiles[impression])


class ListValidator:
    """The metrics of the validation split, with everything known before each impression (prequential).

    As in use, a list stays in the engine's order where nothing is known of its user, if the settings say so. With
    ``weights`` (m,) of clicks the metrics are self-normalised inverse-propensity figures.
    """

    def __init__(
        self, log: SearchLog, run: SearchRun, vectors: Vectors, metric: str, weights: Float64s | None = None
    ) -> None:
        self.log, self.model, self.documents, self.metric = log, run.model, vectors.documents, metric
        self.impressions = log.judged("valid")
        users = UserVectors.of(log, vectors, log.time, run.profile, run.numbers)
        self.queries: Float32s = vectors.queries[self.impressions]
        self.profiles: Float32s = users.profiles[self.impressions]
        self.rows: Int64s = users.rows[self.impressions]
        self.lengths = log.lengths[self.impressions]
        self.unknown = run.profile.unknown
        ranked = users.known[self.impressions] | (self.unknown == "model")
        self.ranked = np.repeat(ranked, self.lengths)
        results = log.rows(self.impressions)
        self.relevant = log.satisfied[results]
        self.weights = None if weights is None else weights[results][self.relevant]
        self.engine = -log.position[results].astype(np.float64)

    def __call__(self) -> tuple[float, dict[str, Any]]:
        found = self._means(np.where(self.ranked, self._scores(self.profiles, self.rows), self.engine))
        return found[self.metric], found

    def standing(self) -> Standing:
        """The model as it is now, beside the engine."""
        without_user = self._scores(np.zeros_like(self.profiles), np.full_like(self.rows, -1))
        engine, alone = (self._means(scores)["mrr"] for scores in (self.engine, without_user))
        return Standing(engine, self()[1]["mrr"], alone, self.unknown)

    def _scores(self, profiles: Float32s, rows: Int64s) -> Float64s:
        return score_rows(self.model, self.log, self.impressions, self.queries, profiles, rows, self.documents)

    def _means(self, scores: Float64s) -> dict[str, float]:
        if self.weights is None:
            return list_metrics(scores, self.relevant, self.lengths, method="validation").means()
        return click_metrics(scores, self.relevant, self.lengths).means(self.weights)


def _judged(log: SearchLog) -> Int64s:
    impressions = log.judged("train")
    if not len(impressions):
        raise DataError(f"the log {log.name!r} has no satisfied click in its train split", "ingest one that has")
    return impressions
