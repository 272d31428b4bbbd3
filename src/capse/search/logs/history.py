"""What is known at the moment of an impression: the clicks before it, and never a later one.

``prequential`` history is everything before the impression, test period included; the model's weights stay as trained.
``frozen`` history ends where the split begins that is being evaluated. A click in the same instant is not history.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from capse.arrays import Int64s
from capse.search.logs.search_log import SearchLog

HistoryKind = Literal["prequential", "frozen"]


def cutoffs(log: SearchLog, kind: HistoryKind = "prequential", split: str = "test") -> Int64s:
    """(n,) for every impression, the time before which clicks are known; ``split`` is where a frozen history ends."""
    if kind == "prequential":
        return log.time
    return np.minimum(log.time, log.start_of(split))


@dataclass(frozen=True)
class Clicks:
    """The satisfied clicks of a log in time order: result rows, and when each happened."""

    rows: Int64s  # (c,) result rows of the log
    time: Int64s  # (c,) ascending

    @classmethod
    def of(cls, log: SearchLog) -> Clicks:
        rows = np.flatnonzero(log.satisfied)
        # By position where the moment is the same: the order in which a list's rows are stored is of no account.
        order = np.lexsort((log.position[rows], log.impression[rows], log.clicked_at[rows]))
        return cls(rows[order], log.clicked_at[rows[order]])


@dataclass(frozen=True)
class Replay:
    """A log gone through in time order: first what has been clicked, then who asks.

    >>> log = SearchLog.from_records([
    ...     {"time": 1, "user": "ada", "query": "engine", "results": ["d1", "d2"], "clicks": ["d2"]},
    ...     {"time": 9, "user": "ada", "query": "engine", "results": ["d2", "d3"], "clicks": ["d2"], "split": "test"},
    ... ])
    >>> [(event.kind, event.number) for event in Replay(log, cutoffs(log))]
    [('ask', 0), ('click', 1), ('ask', 1), ('click', 2)]
    """

    log: SearchLog
    cutoffs: Int64s  # (n,)

    def __iter__(self) -> Iterator[Event]:
        """Every impression as an ``ask`` at its cutoff, every satisfied click as a ``click`` (a result row)."""
        clicks, order = self.clicks, np.argsort(self.cutoffs, kind="stable")
        before = np.searchsorted(clicks.time, self.cutoffs[order], side="left")  # clicks strictly before each ask
        done = 0
        for impression, upto in zip(order.tolist(), before.tolist(), strict=True):
            for row in clicks.rows[done:upto].tolist():
                yield Event("click", row)
            done = upto
            yield Event("ask", impression)
        for row in clicks.rows[done:].tolist():
            yield Event("click", row)

    @cached_property
    def clicks(self) -> Clicks:
        return Clicks.of(self.log)


@dataclass(frozen=True, slots=True)
class Event:
    kind: Literal["ask", "click"]
    number: int  # an impression, or a result row


def earlier_clicks(log: SearchLog, impressions: Int64s, cutoffs: Int64s) -> Int64s:
    """For each of these impressions, the satisfied clicks of its user before its cutoff."""
    clicks = Clicks.of(log)
    users = log.user[log.impression[clicks.rows]]
    return count_before(users, clicks.time, log.user[impressions], cutoffs[impressions])


def count_before(keys: Any, times: Int64s, asked: Any, asked_times: Int64s) -> Int64s:
    """How many of the events (keys, times) have the key ``asked[i]`` and lie strictly before ``asked_times[i]``.

    >>> count_before(np.array([7, 7, 8]), np.array([1, 5, 2]), np.array([7, 7, 8, 9]), np.array([5, 6, 2, 6]))
    array([1, 2, 0, 0])
    """
    moments = np.unique(times)
    span = len(moments) + 1
    events = np.sort(keys.astype(np.int64) * span + np.searchsorted(moments, times))
    starts = asked.astype(np.int64) * span
    ends = np.searchsorted(events, starts + np.searchsorted(moments, asked_times))
    return np.asarray(ends - np.searchsorted(events, starts), np.int64)
