"""Rankers that learn nothing: the engine's order, and what people clicked before.

Two queries are the same if they differ in case and white space only. Each looks at satisfied clicks before the cutoff.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from capse.arrays import Bools, Float64s, Int32s, Int64s
from capse.search.features.earlier import Earlier, KnownClicks, joined
from capse.search.features.feature_table import ranks_within
from capse.search.features.query_pairs import query_codes
from capse.search.logs.search_log import SearchLog


@dataclass(frozen=True)
class SE:
    """The search engine's own order."""

    name: str = "se"

    def score(self, log: SearchLog, impressions: Int64s, cutoffs: Int64s) -> Float64s:
        return -log.position[log.rows(impressions)].astype(np.float64)


@dataclass(frozen=True)
class CI:
    """Current interest (Teevan et al. 2011): what the user clicked the last two times is what the user wants now.

    If the last two times that the user asked the same query there was exactly one click each, on the same document, it
    goes to the top; all else stays in the engine's order.
    """

    name: str = "ci"

    def score(self, log: SearchLog, impressions: Int64s, cutoffs: Int64s) -> Float64s:
        rows = log.rows(impressions)
        wanted = np.repeat(self.wanted(log, impressions, cutoffs), log.lengths[impressions])
        return promoted(log, rows, log.document[rows] == wanted)

    def wanted(self, log: SearchLog, impressions: Int64s, cutoffs: Int64s) -> Int64s:
        """The document to promote for each impression, -1 for none."""
        keys = joined(log.user, query_codes(log.queries)[log.query], len(log.queries))
        before = np.searchsorted(log.time, cutoffs)  # impressions strictly before each cutoff
        asked = Earlier(keys, np.arange(len(log))).pairs(keys[impressions], before[impressions], 2)

        clicks = KnownClicks.of(log, cutoffs)
        by_impression = clicks.by(log.impression)
        known = clicks.known[impressions][asked.asked]
        found = by_impression.pairs(asked.found, known, 2)
        single = by_impression.counts(asked.found, known) == 1
        document = np.full(len(asked.found), -1)
        document[found.asked] = log.document[clicks.rows[found.found]]

        twice = np.bincount(asked.asked[single], minlength=len(impressions)) == 2
        latest = np.full(len(impressions), -1)
        latest[asked.asked] = document
        agree = np.bincount(asked.asked, document == latest[asked.asked], len(impressions)) == 2
        return np.where(twice & agree, latest, -1)


@dataclass(frozen=True)
class PClick:
    """P-Click (Dou et al. 2007), merged with the engine's order by Borda count.

    clicks(q, p, u) / (clicks(q, ., u) + 0.5) for query q, page p and user u. A document gets a point from each of
    the two rankings for every document of its list that it beats there, and half a point for every tie.
    """

    name: str = "pclick"

    def score(self, log: SearchLog, impressions: Int64s, cutoffs: Int64s) -> Float64s:
        rows, lengths = log.rows(impressions), log.lengths[impressions]
        clicks = KnownClicks.of(log, cutoffs)
        known = clicks.known[log.impression[rows]]
        asked = joined(log.user, query_codes(log.queries)[log.query], len(log.queries))
        asked = np.unique(asked, return_inverse=True)[1][log.impression]
        on_page = joined(asked, log.document, len(log.documents))
        of_query = clicks.by(asked).counts(asked[rows], known)
        personal = clicks.by(on_page).counts(on_page[rows], known) / (of_query + 0.5)
        return borda_points(personal, lengths) + borda_points(-log.position[rows].astype(np.float64), lengths)


@dataclass(frozen=True)
class Refinding:
    """Documents that this user, or this session, clicked before come first; then the engine's order."""

    scope: Literal["user", "session"] = "user"

    @property
    def name(self) -> str:
        return f"{self.scope} re-finding"

    def score(self, log: SearchLog, impressions: Int64s, cutoffs: Int64s) -> Float64s:
        rows = log.rows(impressions)
        clicks = KnownClicks.of(log, cutoffs)
        owner = log.user if self.scope == "user" else log.session
        keys = joined(owner[log.impression], log.document, len(log.documents))
        return promoted(log, rows, clicks.by(keys).counts(keys[rows], clicks.known[log.impression[rows]]) > 0)


@dataclass(frozen=True)
class ClickThrough:
    """Documents by how often they were clicked when they were shown, whoever asked; ties in the engine's order.

    clicks / (showings + 1), showings being those in lists with a satisfied click: one never clicked stays where it is.
    """

    name: str = "click-through"

    def score(self, log: SearchLog, impressions: Int64s, cutoffs: Int64s) -> Float64s:
        rows = log.rows(impressions)
        clicks = KnownClicks.of(log, cutoffs)
        known, here = clicks.known[log.impression[rows]], log.document[rows].astype(np.int64)
        clicked = clicks.by(log.document).counts(here, known)
        shown = clicks.shown_by(log.document).counts(here, known)
        return in_engine_order(clicked / (shown + 1), log.position[rows])


def promoted(log: SearchLog, rows: Int64s, first: Bools) -> Float64s:
    """Scores that put some results before all others, and keep the engine's order within both parts."""
    lift = float(log.position.max(initial=0)) + 1  # of the whole log: a score does not depend on what else is asked
    return np.where(first, lift, 0.0) - log.position[rows]


def borda_points(values: Float64s, lengths: Int64s) -> Float64s:
    """How many results of its list each one beats, a tie counting half.

    >>> borda_points(np.array([0.5, 0.0, 0.0]), np.array([3]))
    array([2. , 0.5, 0.5])
    """
    others = np.repeat(lengths, lengths) - 1
    return (ranks_within(-values, lengths) + others - ranks_within(values, lengths)) / 2


def in_engine_order(scores: Float64s, position: Int32s) -> Float64s:
    """Scores in which results that tie follow the engine's order."""
    return scores - 1e-9 * position
