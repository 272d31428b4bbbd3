"""Triples as integer arrays of shape (n, 3), columns head, relation, tail; and an index over known ones.

Both training (never sample a known triple) and ranking (never count a known triple as a competitor) stand on this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from capse.arrays import large_array
from capse.errors import DataError

Ids = npt.NDArray[np.integer]
Triples = npt.NDArray[np.integer]  # (n, 3): head, relation, tail

HEAD, RELATION, TAIL = 0, 1, 2
_CHUNK = 1 << 20  # triples


@dataclass(frozen=True)
class Answers:
    """The known answers of n queries, one after the other: query i has ``entities[offsets[i]:offsets[i + 1]]``.

    Where relations are asked for, they stand in place of the entities.
    """

    offsets: npt.NDArray[np.int64]  # (n + 1,)
    entities: npt.NDArray[np.int64]  # (offsets[-1],), ascending within a query

    def __getitem__(self, query: int) -> npt.NDArray[np.int64]:
        return self.entities[self.offsets[query] : self.offsets[query + 1]]

    def __len__(self) -> int:
        return len(self.offsets) - 1


class TripleIndex:
    """Known triples, sorted, so that whole arrays of queries are answered by binary search.

    >>> index = TripleIndex(np.array([[0, 0, 1], [0, 0, 2], [3, 1, 1]]), entities=4, relations=2)
    >>> index.contains(np.array([0, 1]), np.array([0, 0]), np.array([2, 2]))
    array([ True, False])
    >>> index.tails(np.array([0]), np.array([0]))[0]
    array([1, 2])
    >>> index.heads(np.array([1]), np.array([1]))[0]
    array([3])
    >>> index.between(np.array([3]), np.array([1]))[0]
    array([1])
    """

    def __init__(self, triples: Triples, entities: int, relations: int) -> None:
        if entities * entities * relations > np.iinfo(np.int64).max:
            raise DataError(f"{entities:,} entities and {relations:,} relations are more than one index can hold")
        self.entities = entities
        self.relations = relations
        self.triples = triples
        # One number per triple, ordered by (head, relation) and then tail.
        self.keys = self._keys(self.key)

    def __len__(self) -> int:
        return len(self.keys)

    def key(self, heads: Ids, relations: Ids, tails: Ids) -> npt.NDArray[np.int64]:
        """(h·R + r)·E + t, one number per triple."""
        heads, relations, tails = (np.asarray(ids, np.int64) for ids in (heads, relations, tails))
        return (heads * self.relations + relations) * self.entities + tails

    def contains(self, heads: Ids, relations: Ids, tails: Ids) -> npt.NDArray[np.bool_]:
        """Which of these triples are known."""
        keys = self.key(heads, relations, tails)
        return np.searchsorted(self.keys, keys, side="right") > np.searchsorted(self.keys, keys)

    def tails(self, heads: Ids, relations: Ids) -> Answers:
        """The known tails of each (head, relation)."""
        return _answers(self.keys, np.asarray(heads, np.int64) * self.relations + relations, self.entities)

    def heads(self, relations: Ids, tails: Ids) -> Answers:
        """The known heads of each (relation, tail)."""
        return _answers(self._keys_by_tail, np.asarray(tails, np.int64) * self.relations + relations, self.entities)

    def between(self, heads: Ids, tails: Ids) -> Answers:
        """The known relations of each (head, tail)."""
        return _answers(self._keys_by_pair, np.asarray(heads, np.int64) * self.entities + tails, self.relations)

    def around(self, entity: int) -> npt.NDArray[np.int64]:
        """The known triples (n, 3) that an entity is in, those first in which it is the head.

        >>> TripleIndex(np.array([[0, 0, 1], [1, 0, 1], [2, 0, 0]]), entities=3, relations=1).around(1)
        array([[1, 0, 1],
               [0, 0, 1]])
        """
        parts = []
        for keys, near, far in ((self.keys, HEAD, TAIL), (self._keys_by_tail, TAIL, HEAD)):
            size = self.relations * self.entities
            found = keys[np.searchsorted(keys, entity * size) : np.searchsorted(keys, (entity + 1) * size)] % size
            triples = np.empty((len(found), 3), np.int64)
            triples[:, near], triples[:, RELATION], triples[:, far] = entity, *np.divmod(found, self.entities)
            parts.append(triples)
        with_itself = parts[1][:, HEAD] == entity
        return np.concatenate([parts[0], parts[1][~with_itself]])

    @cached_property
    def _keys_by_tail(self) -> npt.NDArray[np.int64]:
        # The same number with head and tail exchanged.
        return self._keys(lambda h, r, t: self.key(t, r, h))

    @cached_property
    def _keys_by_pair(self) -> npt.NDArray[np.int64]:
        # (h·E + t)·R + r
        return self._keys(lambda h, r, t: (h * self.entities + t) * self.relations + r)

    def _keys(self, key: Callable[[Ids, Ids, Ids], npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
        """The distinct keys of all triples, sorted; of millions on disk, so that they can leave the memory."""
        keys = large_array((len(self.triples),), np.int64)
        for start in range(0, len(keys), _CHUNK):
            keys[start : start + _CHUNK] = key(*self.triples[start : start + _CHUNK].astype(np.int64).T)
        return _sorted_distinct(keys)


def _answers(keys: npt.NDArray[np.int64], pairs: npt.NDArray[np.int64], candidates: int) -> Answers:
    """What completes each pair, of so many candidates, where a key is pair·candidates + answer."""
    starts = np.searchsorted(keys, pairs * candidates)
    ends = np.searchsorted(keys, (pairs + 1) * candidates)
    lengths = ends - starts
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    positions = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    return Answers(offsets, keys[positions] % candidates)


def _sorted_distinct(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """These keys sorted, in place; in another array only where some are there twice."""
    if not (keys[1:] > keys[:-1]).all():
        keys.sort()  # np.unique hashes before it sorts, which takes four times as long on ten million keys
    new = keys[1:] != keys[:-1]
    return keys if new.all() else keys[np.concatenate([[True], new])]
