"""The lists that a ranking is judged by, and how they are shuffled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from capse.arrays import Bools, Float64s, Int64s
from capse.search.evaluation.list_metrics import ListMetrics, list_metrics
from capse.search.logs.actions import Actions
from capse.search.logs.field_values import taken
from capse.search.logs.history import earlier_clicks
from capse.search.logs.search_log import SearchLog

LABELS = ("clicked", "clicked_at", "satisfied")  # what a result row of a log tells of its click
PAGE = 10  # results that an engine shows at once
FEWEST_LONGER = 3  # lists longer than a page below which 'always' means little


class Ranker(Protocol):
    """Scores documents. It may also offer ``without_user()`` and ``document_only()``: itself, knowing less."""

    def score(self, log: SearchLog, impressions: Int64s, cutoffs: Int64s) -> Float64s:
        """Scores aligned with ``log.rows(impressions)``, higher is better, from clicks before ``cutoffs`` (n,) only."""


def shuffled(log: SearchLog, seed: int = 0) -> SearchLog:
    """The same log, each list in a random order; what belongs to a document, its position included, goes with it.

    A ranker that reads the engine's rank from ``position`` scores every document as before. One that reads it from the
    order of the rows, or lets that order break ties before it scores, is found out: some sources put the relevant
    document first.
    """
    return shuffle_within_lists(log, ("document", "position", *LABELS), seed)


def shuffle_within_lists(log: SearchLog, columns: Sequence[str], seed: int) -> SearchLog:
    """The same log with these columns of its results put into one random order within each list."""
    order = np.lexsort((np.random.default_rng(seed).random(len(log.document)), log.impression))
    if "document" not in columns:  # labels alone: what else was done would tell whose they were
        return replace(log, actions=Actions(), **{name: getattr(log, name)[order] for name in columns})
    fields = replace(log.fields, result=taken(log.fields.result, order))
    actions = log.actions.with_rows(np.argsort(order))
    ranks = None if log.reranked is None else log.reranked[order]
    return replace(
        log, fields=fields, actions=actions, reranked=ranks, **{name: getattr(log, name)[order] for name in columns}
    )


@dataclass(frozen=True)
class JudgedLists:
    """Lists with a satisfied click, and what is known when each is ranked."""

    log: SearchLog
    impressions: Int64s
    cutoffs: Int64s  # (n,) of all impressions of the log

    def scores(self, ranker: Ranker) -> Float64s:
        return np.asarray(ranker.score(self.log, self.impressions, self.cutoffs), np.float64)

    def measure(self, scores: Float64s, method: str) -> ListMetrics:
        return list_metrics(scores, self.relevant, self.lengths, method=method)

    @cached_property
    def rows(self) -> Int64s:
        return self.log.rows(self.impressions)

    @cached_property
    def lengths(self) -> Int64s:
        return self.log.lengths[self.impressions]

    @cached_property
    def relevant(self) -> Bools:
        return self.log.satisfied[self.rows]

    @cached_property
    def position(self) -> Float64s:
        return self.log.position[self.rows].astype(np.float64)

    @cached_property
    def earlier_clicks(self) -> Int64s:
        """For each list, the satisfied clicks of its user before its cutoff."""
        return earlier_clicks(self.log, self.impressions, self.cutoffs)

    def longer_than_a_page(self) -> str:
        """A warning of SEARCH17's artefact: a relevant document from beyond the first page was added at its end."""
        longer = self.lengths > PAGE
        starts = np.cumsum(self.lengths) - self.lengths
        last = self.position == np.repeat(np.maximum.reduceat(self.position, starts), self.lengths)
        in_longer = np.repeat(longer, self.lengths)
        if longer.sum() < FEWEST_LONGER or (last != self.relevant)[in_longer].any():
            return ""
        engine = self.measure(-self.position, "engine").means()["mrr"]
        lifted = self.measure(np.where(in_longer & last, 1.0, -self.position), "engine").means()["mrr"]
        return (
            f"in all {longer.sum()} lists of more than {PAGE} results the relevant document is the last, an artefact "
            f"of how the log was made: putting it first there lifts the engine's MRR from {engine:.4f} to {lifted:.4f}"
        )
