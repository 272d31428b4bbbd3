"""Whether the traffic of today is still what the run was trained on: figures for Prometheus, without personal data.

Of each list the best score and how far the scores lie apart, by run; of each query the words that the run knows and
those that it does not; of documents, whether anything is known of them. And of clicks the rank at which they were
shown, where lists are kept: a moment later, of so many a second that it takes no time.
"""

from __future__ import annotations

import json
import threading
import time
from bisect import bisect_right
from collections.abc import Sequence

from sqlalchemy import Connection, select

from capse.search.logs.documents import words
from capse.search.serving.reranker import RankedDocument
from capse.search.times import DAY
from capse.service.observe import Metrics
from capse.service.search_model import SearchModel
from capse.service.store import Event, Store
from capse.service.store.schema import lists, users
from capse.service.stored_log import list_of

OWN_LABEL = 10  # ranks that have a label of their own; those below share one

_AT_ONCE = 200  # clicks that are looked up in a round
_WAITS = 3.0  # seconds until the list that a click came from is surely written


def observe_list(metrics: Metrics, run: str, model: SearchModel, query: str, ranked: Sequence[RankedDocument]) -> None:
    """Count a list that was answered by a run, `a` the one that is served and `b` the one against it."""
    scores = [one.score for one in ranked if one.score is not None]
    if scores:
        metrics.best_score.labels(run).observe(max(scores))
        metrics.score_spread.labels(run).observe(max(scores) - min(scores))
    metrics.documents.labels(run, "scored").inc(len(scores))
    metrics.documents.labels(run, "kept in place").inc(len(ranked) - len(scores))
    vocabulary = model.vocabulary
    if vocabulary is not None:
        asked = words(query)
        known = sum(word in vocabulary for word in asked)
        metrics.words.labels(run, "yes").inc(known)
        metrics.words.labels(run, "no").inc(len(asked) - known)


class ClickRanks:
    """Clicks that wait to be counted by the rank at which their documents were shown."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store, self._metrics = store, metrics
        self._waiting: list[tuple[float, Event]] = []
        self._lock = threading.Lock()

    def add(self, events: Sequence[Event]) -> None:
        """Have the clicks among events counted soon; more than there is time for are let go."""
        now = time.monotonic()
        with self._lock:
            clicks = [(now, event) for event in events if event.kind == "click"]
            self._waiting += clicks[: max(_AT_ONCE - len(self._waiting), 0)]

    def count(self, waits: float = _WAITS) -> None:
        """Count those whose lists are written by now."""
        until = time.monotonic() - waits
        with self._lock:
            ready = bisect_right(self._waiting, until, key=lambda one: one[0])
            clicks, self._waiting = self._waiting[:ready], self._waiting[ready:]
        if not clicks:
            return
        with self._store.reading() as connection:
            for _, click in clicks:
                self._metrics.clicks_by_rank.labels(_label(shown_at(connection, click))).inc()


def shown_at(connection: Connection, click: Event) -> int | None:
    """The rank of a click's document in the list that it came from; None where no such list was kept."""
    wanted = select(lists).join(users, users.c.number == lists.c.user).where(users.c.name == click.user)
    wanted = wanted.where(lists.c.time <= click.time, lists.c.time >= click.time - DAY).order_by(
        lists.c.time, lists.c.number
    )
    rows = [(row, json.loads(row.documents)) for row in connection.execute(wanted)]
    number = list_of(click, rows)
    for row, documents in rows:
        if row.number == number:
            return next(
                rank for rank, place in enumerate(json.loads(row.shown), 1) if documents[place - 1] == click.document
            )
    return None


def _label(rank: int | None) -> str:
    if rank is None:
        return "of no list"
    return str(rank) if rank <= OWN_LABEL else f"above {OWN_LABEL}"
