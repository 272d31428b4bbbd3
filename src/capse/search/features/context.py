"""Features of the moment: how far a session and a user have come. They are the same for all results of a list."""

from __future__ import annotations

from typing import Any

import numpy as np

from capse.arrays import Float64s, Int64s
from capse.search.features.earlier import Earlier, joined
from capse.search.features.query_pairs import query_codes
from capse.search.features.scopes import ScopedClicks
from capse.search.logs.search_log import SearchLog


def context_columns(log: SearchLog, rows: Int64s, session: ScopedClicks, user: ScopedClicks) -> dict[str, Float64s]:
    """Earlier impressions need no cutoff: what was asked is no label, and is known when the next list is ranked."""
    query = query_codes(log.queries)[log.query]
    asked_before = _earlier_impressions(joined(log.user, query, int(query.max(initial=0)) + 1))
    columns: dict[str, Any] = {
        "session_place": _earlier_impressions(log.session),
        "user_place": _earlier_impressions(log.user),
        "asked_before": asked_before,
        "results": log.lengths,
    }
    wide = {name: column[log.impression[rows]].astype(np.float64) for name, column in columns.items()}
    return wide | {"session_clicks": session.total.astype(float), "user_clicks": user.total.astype(float)}


def _earlier_impressions(keys: Any) -> Int64s:
    """(n,) how many impressions with the same key came before each."""
    numbers = np.arange(len(keys))
    return Earlier(keys.astype(np.int64), numbers).counts(keys.astype(np.int64), numbers)
