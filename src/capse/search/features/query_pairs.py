"""When two queries are the same, one holds the other, or they are alike."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from capse.arrays import Bools, Float64s, Int64s
from capse.search.features.text_match import TextMatch
from capse.search.features.word_rows import Rows, paired
from capse.search.logs.documents import words
from capse.search.vectors.sparse_rows import codes

KEPT = 100_000  # queries that stay taken apart, those met most lately


def normalised(query: str) -> str:
    """A query without regard to case and white space.

    >>> normalised("  Fix\\tthe TYPO ")
    'fix the typo'
    """
    return " ".join(query.lower().split())


def query_codes(queries: Sequence[str]) -> Int64s:
    """A number for each query; two are equal where the normalised queries are."""
    return codes(map(normalised, queries))


@dataclass(frozen=True)
class Query:
    """A query taken apart. A term or word is a number made of its letters, the same in every process."""

    text: str  # normalised
    terms: Int64s  # ascending
    words: Int64s  # ascending
    weights: Float64s  # of the words, by how rare each is in the documents; of length 1


class Queries:
    """Takes queries apart, with the weights that a catalogue gives their words."""

    def __init__(self, text: TextMatch) -> None:
        self.text = text
        self._rarest = max(text.rarest, 1.0)
        self.of = lru_cache(KEPT)(self._of)

    def pairs(self, queries: Iterable[str]) -> QueryPairs:
        """These queries, to be compared by their places."""
        return QueryPairs([self.of(query) for query in queries])

    def _of(self, query: str) -> Query:
        known, idf = self.text.vocabulary, self.text.idf
        weight = {_number(word): idf[known[word]] if word in known else self._rarest for word in words(query)}
        row = Rows.of([weight]).unit()
        terms = sorted({_number(term) for term in normalised(query).split()})
        return Query(normalised(query), np.array(terms, np.int64), row.columns, row.values)


class QueryPairs:
    """Compares queries, given as places in a sequence, pair by pair."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self._codes = codes(query.text for query in queries)
        self._terms = _rows([query.terms for query in queries]).signs
        self._sizes = np.diff(self._terms.starts)
        weights = [query.weights for query in queries]
        self._words = replace(_rows([query.words for query in queries]), values=np.concatenate([np.zeros(0), *weights]))

    def same(self, i: Any, j: Any) -> Bools:
        return np.asarray(self._codes[i] == self._codes[j])

    def within(self, i: Any, j: Any) -> Bools:
        """Whether all terms of query i are terms of query j."""
        return np.asarray(paired(self._terms, i, self._terms, j) == self._sizes[i])

    def alike(self, i: Any, j: Any) -> Float64s:
        """Cosines of the queries' words, each weighted by how rare it is in the documents."""
        return paired(self._words, i, self._words, j)


def _rows(columns: Sequence[Int64s]) -> Rows:
    """Zeros in these columns."""
    starts = np.concatenate([[0], np.cumsum([len(row) for row in columns])]).astype(np.int64)
    found = np.concatenate([np.zeros(0, np.int64), *columns])
    return Rows(starts, found, np.zeros(len(found)))


@lru_cache(KEPT)
def _number(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") >> 1
