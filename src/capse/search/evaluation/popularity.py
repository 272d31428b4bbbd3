"""What a document's past alone tells: the scorer that knows neither the query nor the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from capse.arrays import Float64s, Int64s
from capse.search.logs.history import Clicks, count_before
from capse.search.logs.search_log import SearchLog
from capse.search.times import DAY


@dataclass(frozen=True)
class DocumentOnly:
    """How often a document was clicked when it was shown, lately and ever, whoever asked and for whatever.

    The share of satisfied clicks among the times that a document was shown in the last ``recent_days`` is smoothed by
    ``weight`` showings at its share of all time, which is smoothed by as many at the share of all documents. Only what
    came before the impression's cutoff counts. A ranker that is no better has learned what is popular, not what is
    asked or who asks.
    """

    recent_days: float = 90
    weight: float = 3
    name: str = "document only"

    def score(self, log: SearchLog, impressions: Int64s, cutoffs: Int64s) -> Float64s:
        rows = log.rows(impressions)
        until = cutoffs[log.impression[rows]]
        since = until - round(self.recent_days * DAY)
        clicks = Clicks.of(log)

        def tally(key: Any, before: Int64s) -> tuple[Int64s, Int64s]:
            """Satisfied clicks and showings before these times, given what makes two results (m,) the same thing."""
            clicked = count_before(key[clicks.rows], clicks.time, key[rows], before)
            return clicked, count_before(key, log.time[log.impression], key[rows], before)

        clicked_at_all, shown_at_all = tally(np.zeros(len(log.document), np.int32), until)
        clicked, shown = tally(log.document, until)
        clicked_earlier, shown_earlier = tally(log.document, since)
        share = (clicked_at_all + 1) / (shown_at_all + 10)
        share = (clicked + self.weight * share) / (shown + self.weight)
        lately = shown - shown_earlier
        return np.asarray((clicked - clicked_earlier + self.weight * share) / (lately + self.weight), np.float64)
