"""Why a document stands where it stands: what it shares with the user, and what the user read that is like it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capse.arrays import Float32s
from capse.search.times import to_seconds
from capse.search.users.user_state import PastClick
from capse.search.vectors.encoders import Lsa
from capse.search.vectors.topics import Topics
from capse.search.vectors.vector_space import VectorSpace

_WORDS = 5  # that a topic is shown by
_NEAR = 200  # words nearest to a user, among which those near to a document are looked for
_SHARED = 3  # topics that are named
_PAST = 3  # past documents that are named
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


def reasons_of(
    space: VectorSpace, user: Float32s, past: Sequence[tuple[PastClick, Float32s]], documents: Float32s
) -> list[Reasons]:
    """Reasons for each of the documents (r, k): for all at once, so that they cost little more than one."""
    if isinstance(space.model, Topics):
        shared = _shared_topics(space.model, user, documents)
    elif isinstance(space.model, Lsa):
        shared = _shared_words(space.model, user, documents)
    else:
        shared = [()] * len(documents)
    return [Reasons(*both) for both in zip(shared, _near(past, documents), strict=True)]


def _shared_topics(model: Topics, user: Float32s, documents: Float32s) -> list[tuple[SharedTopic, ...]]:
    """The topics with the largest product of shares."""
    strongest = np.argsort(-(user * documents), axis=1, kind="stable")[:, :_SHARED]  # (r, topics)
    own, theirs = user[strongest].tolist(), np.take_along_axis(documents, strongest, axis=1).tolist()
    return [
        tuple(
            SharedTopic(topic, model.shown_by(topic, _WORDS), share, of_document)
            for topic, share, of_document in zip(*row, strict=True)
            if min(share, of_document) > _LEAST
        )
        for row in zip(strongest.tolist(), own, theirs, strict=True)
    ]


def _shared_words(model: Lsa, user: Float32s, documents: Float32s) -> list[tuple[SharedTopic, ...]]:
    """The words that are near to both; nothing where they are hardly alike."""
    nearness = model.directions @ user  # (V,)
    words = np.argpartition(-nearness, min(_NEAR, len(nearness) - 1))[:_NEAR]
    both = np.maximum(nearness[words], 0) * np.maximum(documents @ model.directions[words].T, 0)  # (r, words)
    found: list[tuple[SharedTopic, ...]] = []
    for row, order, likeness in zip(
        both, np.argsort(-both, axis=1, kind="stable")[:, :_WORDS].tolist(), _cosines(documents, user), strict=True
    ):
        shown = tuple(model.words[words[place]] for place in order if row[place] > 0)
        found.append((SharedTopic(None, shown, likeness, likeness),) if likeness >= _LEAST else ())
    return found


def _near(past: Sequence[tuple[PastClick, Float32s]], documents: Float32s) -> list[tuple[NearDocument, ...]]:
    """The user's past documents that are nearest to each, each named once, with its latest time."""
    latest = {click.document: (click, vector) for click, vector in past}  # the last one stands
    if not latest:
        return [()] * len(documents)
    clicks = [click for click, _ in latest.values()]
    likenesses = np.stack([_cosines(documents, vector) for _, vector in latest.values()], axis=1)  # (r, clicks)
    times = np.broadcast_to([-click.time for click in clicks], likenesses.shape)
    order = np.lexsort((times, -likenesses), axis=1)[:, :_PAST]  # the latest first where they are alike
    best = np.take_along_axis(likenesses, order, axis=1)
    return [
        tuple(
            NearDocument(clicks[place].document, to_seconds(clicks[place].time), likeness)
            for place, likeness in zip(*row, strict=True)
            if likeness >= _LEAST
        )
        for row in zip(order.tolist(), best.tolist(), strict=True)
    ]


def _cosines(rows: Float32s, vector: Float32s) -> list[float]:
    """Of each row (n, k) with a vector (k,); 0 where one of them is zero."""
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)
    found: list[float] = (rows @ vector / np.where(lengths > 0, lengths, 1)).tolist()
    return found
