"""Lists made of a run's own documents, so that somebody who has no list at hand can see what it does.

A run keeps vectors and titles, not texts. A list mixes documents of a few kinds: anchors that lie far apart, and with
each of them its nearest neighbours. Where there are no titles, a document is shown by the words that its vector stands
for, where vectors come from words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capse.arrays import Float32s
from capse.search.vectors.encoders import Lsa
from capse.search.vectors.topics import Topics
from capse.search.vectors.vector_space import VectorSpace

_LOOKED_AT = 2_000  # documents, however many a run knows
_KINDS = 3  # in a list
_WORDS = 4  # that a document is shown by


@dataclass(frozen=True)
class SampleDocument:
    """A document that the run knows."""

    id: str
    words: tuple[str, ...]  # none where vectors come from a file or from another encoder
    title: str = ""  # or the beginning of its text; none where the run does not know it


@dataclass(frozen=True)
class SampleList:
    """What an engine might have found."""

    query: str
    documents: tuple[SampleDocument, ...]


def sample_lists(space: VectorSpace, lists: int = 3, length: int = 9) -> list[SampleList]:
    """The same lists for the same run, fewer where it knows few documents; no document is in two of them."""
    total = len(space.known.labels)
    numbers = np.linspace(0, total - 1, min(total, _LOOKED_AT)).round().astype(int)
    rows = space.known.rows[numbers]
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    free = np.ones(len(rows), bool)
    found: list[SampleList] = []
    for anchors in np.array_split(_far_apart(rows, lists * _KINDS), lists):
        each = -(-length // _KINDS)
        columns = [_nearest(rows, anchor, each, free) for anchor in anchors if free[anchor]]
        order = [column[place] for place in range(each) for column in columns if place < len(column)][:length]
        if order:
            documents = _shown(space, numbers[order])
            found.append(SampleList(_query(documents, {one.query for one in found}), documents))
    return found


def _far_apart(rows: Float32s, count: int) -> npt.NDArray[np.intp]:
    """Rows each of which is the one least like those before it."""
    chosen = [0]
    likeness = rows @ rows[0]
    while len(chosen) < min(count, len(rows)):
        chosen.append(int(likeness.argmin()))
        likeness = np.maximum(likeness, rows @ rows[chosen[-1]])
    return np.array(chosen)


def _nearest(rows: Float32s, anchor: int, count: int, free: npt.NDArray[np.bool_]) -> list[int]:
    """The anchor and the free rows nearest to it; they are free no longer."""
    likeness = np.where(free, rows @ rows[anchor], -np.inf)
    likeness[anchor] = np.inf
    nearest = [int(place) for place in np.argsort(-likeness, kind="stable")[:count] if likeness[place] > -np.inf]
    free[nearest] = False
    return nearest


def _shown(space: VectorSpace, numbers: npt.NDArray[np.intp]) -> tuple[SampleDocument, ...]:
    labels = [space.known.labels[number] for number in numbers.tolist()]
    words = words_of(space, space.known.rows[numbers])
    titles = [space.titles[number] if space.titles else "" for number in numbers.tolist()]
    return tuple(SampleDocument(*of_one) for of_one in zip(labels, words, titles, strict=True))


def _query(documents: tuple[SampleDocument, ...], taken: set[str]) -> str:
    """The first word of each kind, with a number where another list is called so."""
    words = dict.fromkeys(word for document in documents[:_KINDS] for word in document.words[:1])
    query = " ".join(words) or "list"
    return query if words and query not in taken else f"{query} {len(taken) + 1}"


def words_of(space: VectorSpace, vectors: Float32s) -> list[tuple[str, ...]]:
    """The words that vectors (n, k) stand for most; of topics those more frequent in theirs than in all."""
    model = space.model
    if isinstance(model, Topics):
        shares = model.components / model.components.sum(axis=1, keepdims=True)
        weights = vectors @ shares  # (n, V)
        weights = weights * np.log(np.maximum(weights, 1e-12) / np.maximum(shares.mean(axis=0), 1e-12))
    elif isinstance(model, Lsa):
        weights = vectors @ model.directions.T
    else:
        return [()] * len(vectors)
    best = np.argsort(-weights, axis=1, kind="stable")[:, :_WORDS]
    return [
        tuple(model.words[place] for place in places.tolist() if row[place] > 0)
        for places, row in zip(best, weights, strict=True)
    ]
