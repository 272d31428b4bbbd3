"""When two queries are the same, one holds the other, or they are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from capse.arrays import Bools, Float64s, Int64s
from capse.search.features.text_match import TextMatch
from capse.search.logs.documents import words
from capse.search.vectors.sparse_rows import codes, numbered, paired, presence, unit_rows


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
class QueryPairs:
    """Compares queries of a log, given as places in ``queries``, pair by pair."""

    queries: Sequence[str]
    text: TextMatch  # how rare a word is

    def same(self, i: Any, j: Any) -> Bools:
        return np.asarray(self._codes[i] == self._codes[j])

    def within(self, i: Any, j: Any) -> Bools:
        """Whether all terms of query i are terms of query j."""
        return np.asarray(paired(self._terms, i, self._terms, j) == self._sizes[i])

    def alike(self, i: Any, j: Any) -> Float64s:
        """Cosines of the queries' words, each weighted by how rare it is in the documents."""
        return paired(self._words, i, self._words, j)

    @cached_property
    def _codes(self) -> Int64s:
        return query_codes(self.queries)

    @cached_property
    def _terms(self) -> scipy.sparse.csr_matrix:
        terms = [normalised(query).split() for query in self.queries]
        return presence(terms, numbered(term for query in terms for term in query))

    @cached_property
    def _sizes(self) -> Float64s:
        return np.asarray(self._terms.sum(1), np.float64).ravel()

    @cached_property
    def _words(self) -> scipy.sparse.csr_matrix:
        found = [words(query) for query in self.queries]
        vocabulary = numbered(word for query in found for word in query)
        known, idf = self.text.vocabulary, self.text.idf
        rarest = float(idf.max(initial=1.0))
        weights = np.array([idf[known[word]] if word in known else rarest for word in vocabulary], np.float64)
        return unit_rows(presence(found, vocabulary), weights)
