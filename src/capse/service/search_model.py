"""A search run in service: lists re-ranked for users, and what is remembered of users kept up to date.

What is stored of a user are clicks, which go with any run. What all people clicked and were shown is counted in memory,
by every process for itself: the run's own log first, then the store's journal.
"""

from __future__ import annotations

import threading
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capse.search.serving.list_scorers import ShownDocument, TreeLists
from capse.search.serving.reranker import RankedDocument, Reranker
from capse.search.users.user_state import PastClick, UserState
from capse.search.vectors.topics import Topics
from capse.service.store import Change, Store
from capse.service.store.changes import AT_ONCE


@dataclass(frozen=True)
class Interest:
    """A topic of a user's profile."""

    topic: int
    share: float
    words: list[str]


class SearchModel:
    """A search run that has ranked a list. Its methods may be called by several threads."""

    def __init__(self, reranker: Reranker, version: str) -> None:
        self.reranker, self.version = reranker, version
        self._lock = threading.Lock()  # of what is remembered of all people
        self._read = 0  # the row of the store's journal that it has come to
        self._begun_at = 0  # the latest row when it began to count: whoever was forgotten before then is not in it

    @classmethod
    def load(cls, path: str | Path, version: str) -> SearchModel:
        reranker = Reranker.load(path)
        # Whatever compiles or is kept for later does so before anybody waits.
        known = list(reranker.space.known.labels[:2])
        state = UserState([PastClick(label, "", 0) for label in known])
        reranker.rerank("", known, state=state, explain=True)
        return cls(reranker, version)

    def rerank(
        self, state: UserState | None, query: str, documents: Sequence[ShownDocument], **about: Any
    ) -> list[RankedDocument]:
        """The documents in their new order, for a user of whom ``state`` is known; for ``about`` see `Reranker`."""
        if self.reranker.everyone is None:
            return self.reranker.rerank(query, documents, state=state, **about)
        with self._lock:
            return self.reranker.rerank(query, documents, state=state, **about)

    def catch_up(self, store: Store) -> None:
        """Count what anybody clicked and was shown since it was last asked, by the journal that all processes read."""
        if self.reranker.everyone is None:
            return
        with self._lock:
            if not self._read:
                self._begun_at = store.last_change()
            while changes := store.changes(self._read):
                if any(change.step == 0 and change.number > self._begun_at for change in changes):
                    self.reranker.count_from_the_beginning()
                    self._read, self._begun_at = 0, store.last_change()
                    continue
                for change in changes:
                    self._count(change)
                self._read = changes[-1].number
                if len(changes) < AT_ONCE:
                    return

    def _count(self, change: Change) -> None:
        if change.kind == "click":
            self.reranker.count_click(change.documents[0], change.time, change.query, step=change.step)
        elif change.kind == "impression":
            self.reranker.count_shown(change.documents, change.time)
        elif change.step:
            self.reranker.count_action(change.documents[0], change.kind, change.time)

    def mistyped(self) -> list[tuple[str, int]]:
        """Which fields came with values of another type since it was last asked, and how often; they were left out."""
        scorer = self.reranker.scorer
        if not isinstance(scorer, TreeLists) or not scorer.mistyped:
            return []
        with self._lock:
            found = list(scorer.mistyped.items())
            scorer.mistyped.clear()
        return found

    @property
    def vocabulary(self) -> Container[str] | None:
        """The words that the run knows; None where an encoder of another's making takes any text."""
        return getattr(self.reranker.space.model, "vocabulary", None)

    def knows(self, document: str) -> bool:
        """Whether the run knows a document by its id."""
        return document in self.reranker.space.known.index

    def interests(self, user: str, state: UserState | None, most: int = 5) -> list[Interest]:
        """The topics that the user's profile is made of; none where vectors are no topics."""
        topics = self.reranker.space.model
        vector = self.reranker.interests(user, state or UserState())
        if not isinstance(topics, Topics) or vector is None:
            return []
        strongest = (-vector).argsort(kind="stable")[:most].tolist()
        return [Interest(topic, float(vector[topic]), list(topics.shown_by(topic, 5))) for topic in strongest]
