"""Scores that a blend can be trained on: of every list by a ranker that has not seen it.

The training period is cut into parts of equally many judged lists, one after the other in time. A ranker trained on
the parts before one scores that part: as later, when the last ranker scores what comes after the training period. The
first part has none before it and stays without scores (NaN).

    part      1     2      3        4         validation, test
    scored    -    by 1   by 1-2   by 1-3    by all
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from capse.arrays import Float64s, Int64s
from capse.errors import DataError, SettingsError
from capse.search.evaluation.judged_lists import Ranker
from capse.search.logs.history import cutoffs
from capse.search.logs.search_log import SPLITS, SearchLog

TRAIN, VALID, TEST = range(len(SPLITS))
Train = Callable[[SearchLog], Ranker]


@dataclass(frozen=True)
class CrossFitted:
    """A ranker trained on the whole training period, and scores of rankers that were not."""

    ranker: Ranker
    scores: Float64s  # (m,) of training and validation lists; NaN where there is none


def cross_fit(log: SearchLog, train: Train, parts: int = 4) -> CrossFitted:
    """Train ``parts`` rankers, each on more of the training period than the one before, and score what comes next.

    ``train`` gets a log whose training split ends where the scored part begins. What lies between that part and the
    validation period is not in it, and no log that it gets has a list of the test period.
    """
    if parts < 2:
        raise SettingsError(f"a blend's training period is cut into {parts}", "cut it into 2 parts or more")
    judged = log.judged("train")
    if len(judged) < parts:
        raise DataError(f"the log {log.name!r} has {len(judged)} training lists with a satisfied click", "give more")
    known = cutoffs(log)
    scores = np.full(len(log.document), np.nan)
    blocks = np.array_split(judged, parts)
    for block in blocks[1:]:
        ranker = train(before(log, int(log.time[block[0]])))
        scores[log.rows(block)] = ranker.score(log, block, known)
    ranker = train(before(log, None))
    valid = log.judged("valid")
    scores[log.rows(valid)] = ranker.score(log, valid, known)
    return CrossFitted(ranker, scores)


def before(log: SearchLog, time: int | None) -> SearchLog:
    """The log without its test period, and without training lists from this time on."""
    kept = log.split != TEST
    if time is not None:
        kept &= (log.split == VALID) | (log.time < time)
    return part(log, np.flatnonzero(kept))


def part(log: SearchLog, impressions: Int64s) -> SearchLog:
    """These impressions, ascending, as a log of their own; users, queries and documents keep their numbers."""
    rows = log.rows(impressions)
    chosen = {name: getattr(log, name)[impressions] for name in ("time", "user", "session", "query", "split")}
    results = ("document", "position", "clicked", "clicked_at", "satisfied")
    chosen |= {name: getattr(log, name)[rows] for name in results}
    offsets = np.concatenate([[0], np.cumsum(log.lengths[impressions])]).astype(np.int64)
    places = np.full(len(log.document), -1)
    places[rows] = np.arange(len(rows))
    fields, actions = log.fields.part(impressions, rows), log.actions.with_rows(places)
    ranks = None if log.reranked is None else log.reranked[rows]
    return replace(log, offsets=offsets, fields=fields, actions=actions, reranked=ranks, **chosen)
