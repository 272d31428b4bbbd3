"""Why a document stands where it stands: what it shares with the user, and what the user read that is like it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capse.arrays import Float32s
from capse.search.times import to_seconds
from capse.search.users.user_state import PastDocument
from capse.search.vectors.encoders import Lsa
from capse.search.vectors.topics import Topics
from capse.search.vectors.vector_space import VectorSpace

_WORDS = 5  # that a topic is shown by
_NEAR = 200  # words nearest to a user, among which those near to a document are looked for
_LEAST = 0.02  # share of a topic, or cosine, below which it explains nothing


@dataclass(frozen=True)
class SharedTopic:
    """A topic that both the user's profile and the document have. With `lsa` the words are what both lie near to."""

    topic: int | None  # its number; None with `lsa`, which has no topics
    words: tuple[str, ...]
    user: float  # its share of the user's profile; with `lsa` the likeness of profile and document
    document: float  # its share of the document


@dataclass(frozen=True)
class NearDocument:
    """A document from the user's past that is like the one shown."""

    id: str
    time: float  # when the user found it satisfying, in seconds since 1970
    likeness: float  # cosine


@dataclass(frozen=True)
class Reasons:
    """The two of them, the strongest first; both empty where the user has nothing to do with the document."""

    topics: tuple[SharedTopic, ...] = ()
    past: tuple[NearDocument, ...] = ()


class SharedTopics:
    """What documents share with one user; nothing where vectors are neither topics nor `lsa`."""

    def __init__(self, space: VectorSpace, user: Float32s) -> None:
        self.model = space.model
        self.user = user
        if isinstance(self.model, Lsa):
            nearness = self.model.directions @ user  # (V,)
            self.words = np.argpartition(-nearness, min(_NEAR, len(nearness) - 1))[:_NEAR]
            self.nearness = np.maximum(nearness[self.words], 0)

    def of(self, document: Float32s, count: int = 3) -> tuple[SharedTopic, ...]:
        """The topics with the largest product of shares, or the words that are near to both."""
        if isinstance(self.model, Topics):
            return self._topics(self.model, document, count)
        likeness = cosine(self.user, document)
        if not isinstance(self.model, Lsa) or likeness < _LEAST:
            return ()
        near = self.nearness * np.maximum(self.model.directions[self.words] @ document, 0)
        strongest = [place for place in np.argsort(-near, kind="stable")[:_WORDS].tolist() if near[place] > 0]
        return (
            SharedTopic(None, tuple(self.model.words[self.words[place]] for place in strongest), likeness, likeness),
        )

    def _topics(self, model: Topics, document: Float32s, count: int) -> tuple[SharedTopic, ...]:
        user = self.user
        strongest = np.argsort(-(user * document), kind="stable")[:count].tolist()
        return tuple(
            SharedTopic(topic, tuple(model.top_words(topic, _WORDS)), float(user[topic]), float(document[topic]))
            for topic in strongest
            if min(user[topic], document[topic]) > _LEAST
        )


def near_documents(
    past: Sequence[tuple[PastDocument, Float32s]], document: Float32s, count: int = 3
) -> tuple[NearDocument, ...]:
    """The user's past documents that are nearest to one, each named once, with its latest time."""
    if not past:
        return ()
    vectors = np.stack([vector for _, vector in past])
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(document)
    found: dict[str, NearDocument] = {}
    for (one, _), likeness in zip(past, (vectors @ document / np.where(lengths > 0, lengths, 1)).tolist(), strict=True):
        if likeness >= _LEAST:
            found[one.id] = NearDocument(one.id, to_seconds(one.time), likeness)
    return tuple(sorted(found.values(), key=lambda near: (-near.likeness, -near.time))[:count])


def cosine(first: Float32s, second: Float32s) -> float:
    lengths = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / lengths if lengths else 0.0
