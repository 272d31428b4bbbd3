"""A search run in service: lists re-ranked for users, and what is remembered of users kept up to date.

What is stored of a user names the vector space that it was made in. A run with other vectors takes it over: the last
documents that satisfied the user are learned again, which is nearly all of a profile, as older clicks have faded.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capse.runs.folder import RunFolder
from capse.search.serving.reranker import RankedDocument, Reranker, ShownDocument
from capse.search.times import to_seconds
from capse.search.users.user_state import UserState
from capse.search.vectors.topics import Topics
from capse.service.store import Event, State

_SPACE = "space"  # the key beside those of a `UserState`


@dataclass(frozen=True)
class Interest:
    """A topic of a user's profile."""

    topic: int
    share: float
    words: list[str]


@dataclass(frozen=True)
class SearchModel:
    """A search run that has ranked a list. Its methods may be called by several threads."""

    reranker: Reranker
    version: str
    space: str
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)  # the re-ranker keeps new documents

    @classmethod
    def load(cls, path: str | Path, version: str) -> SearchModel:
        reranker = Reranker.load(path)
        digest = hashlib.sha256(f"{reranker.width} {reranker.run.profile.decay}".encode())
        for file in sorted(RunFolder(path).vectors.rglob("*")):
            if file.is_file():
                digest.update(file.read_bytes())
        model = cls(reranker, version, digest.hexdigest()[:12])
        # Whatever compiles or is kept for later does so before anybody waits.
        known = reranker.run.space.known.labels[:2]
        state = reranker.new_user()
        for label in known:
            reranker.learn(state, label, "", 0)
        reranker.rerank("", list(known), state=state, explain=True)
        return model

    def rerank(
        self, stored: State | None, query: str, documents: Sequence[ShownDocument], **about: Any
    ) -> list[RankedDocument]:
        """The documents in their new order, for a user of whom ``stored`` is known; for ``about`` see `Reranker`."""
        with self._lock:
            return self.reranker.rerank(query, documents, state=self._state(stored), **about)

    def fold(self, stored: State | None, event: Event) -> State | None:
        """What is stored of a user after an event: a satisfied click is learned, what was merely shown is not."""
        if event.kind != "click" or event.document is None:
            return stored
        with self._lock:
            state = self._state(stored)
            self.reranker.learn(state, event.document, event.session, to_seconds(event.time))
        return {_SPACE: self.space, **state.to_mapping()}

    def keep_vectors(self, documents: Sequence[ShownDocument]) -> None:
        """Keep the vectors of new documents, so that clicks on them can be learned."""
        with self._lock:
            for document in documents:
                self.reranker.vector(document)

    def interests(self, stored: State | None, most: int = 5) -> list[Interest]:
        """The topics that the user's profile is made of; none where vectors are no topics."""
        topics = self.reranker.run.space.model
        if not isinstance(topics, Topics) or stored is None:
            return []
        with self._lock:
            vector, known = self._state(stored).profile("", 0, "long")
        if not known:
            return []
        strongest = (-vector).argsort(kind="stable")[:most].tolist()
        return [Interest(topic, float(vector[topic]), topics.top_words(topic, 5)) for topic in strongest]

    def _state(self, stored: State | None) -> UserState:
        if stored is None:
            return self.reranker.new_user()
        if stored.get(_SPACE) == self.space:
            return UserState.from_mapping(stored)
        state = self.reranker.new_user()
        for document in stored["recent"]:
            self.reranker.learn(state, document["id"], document["session"], to_seconds(document["time"]))
        return state
