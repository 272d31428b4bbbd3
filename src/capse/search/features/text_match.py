"""How well a query's text matches a document's: features that look at words only, never at a click.

A document has three fields: its text (the word counts of the log), its title (for a file or an address the whole path)
and its leaf (the last part of that path, without the extension). What a word weighs comes from the whole catalogue:
text without labels. Every feature is a number for a (query, document) pair.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from capse.arrays import Float64s, Int64s
from capse.errors import MissingExtraError
from capse.search.features.feature_table import FeatureTable, below_best, ranks_within
from capse.search.logs.documents import Documents, count_matrix, words
from capse.search.logs.search_log import SearchLog
from capse.search.logs.titles import folder, leaf, path_parts, site
from capse.search.vectors.sparse_rows import (
    codes,
    inverse_frequency,
    numbered,
    paired,
    presence,
    row_sums,
    unit_rows,
    weigh,
)

_NO_LETTERS = re.compile(r"[\W\d_]+")
COMPARED = (
    "bm25_text",
    "bm25_title",
    "query_in_title",
    "title_cosine",
    "leaf_in_query",
    "leaf_letters",
    "title_letters",
)


def letters(text: str) -> str:
    """A text's letters in lower case and nothing else, so that 'BioKG', 'bio_kg' and 'bio kg' are the same."""
    return _NO_LETTERS.sub("", text).lower()


def trigrams(text: str) -> list[str]:
    """The distinct runs of three letters of a text, across its words.

    >>> trigrams("Bio KG")
    ['bio', 'iok', 'okg']
    """
    run = letters(text)
    return list(dict.fromkeys(run[start : start + 3] for start in range(max(1, len(run) - 2)))) if run else []


@dataclass(frozen=True)
class TextMatch:
    """A catalogue's fields, word by word."""

    documents: Documents

    def features(self, log: SearchLog, impressions: Int64s) -> FeatureTable:
        """Text-match features aligned with ``log.rows(impressions)``."""
        rows, lengths = log.rows(impressions), log.lengths[impressions]
        asked, query = np.unique(log.query[log.impression[rows]], return_inverse=True)
        texts = [log.queries[number] for number in asked]
        document = log.document[rows]
        columns = self._words_shared(texts, query, document) | self._letters_shared(texts, query, document)
        for name in COMPARED:
            columns[f"{name}.rank"] = ranks_within(columns[name], lengths)
            columns[f"{name}.below_best"] = below_best(columns[name], lengths)
        return FeatureTable.of(columns | self._neighbours(document, lengths), len(rows))

    def shapes(self, document: Any) -> dict[str, Float64s]:
        """What documents look like, whatever the query."""
        titles = self.documents.titles
        return {
            "text_words": row_sums(self.text)[document],
            "title_words": row_sums(self.title)[document],
            "depth": np.array([len(path_parts(title)) for title in titles], np.float64)[document],
        }

    def _words_shared(self, texts: Sequence[str], query: Any, document: Any) -> dict[str, Float64s]:
        """BM25, and shares of words that query and field have in common, plain and weighted by how rare a word is."""
        asked = presence([words(text) for text in texts], self.vocabulary)
        sizes = np.array([len(set(words(text))) for text in texts], np.float64)
        rare = weigh(asked, self.idf)
        whole = np.maximum(sizes, 1)[query]
        unknown = (sizes - row_sums(asked)) * self.idf.max(initial=0.0)  # words of no document are the rarest of all
        heavy = np.maximum(row_sums(rare) + unknown, 1e-9)[query]
        rare_leaf = weigh(self.leaf, self.title_idf)
        return {
            "bm25_text": paired(asked, query, self._bm25_text, document),
            "bm25_title": paired(asked, query, self._bm25_title, document),
            "query_in_title": paired(rare, query, self.title, document) / heavy,
            "query_in_leaf": paired(rare, query, self.leaf, document) / heavy,
            "query_in_text": paired(rare, query, self._text_presence, document) / heavy,
            "query_words_in_title": paired(asked, query, self.title, document) / whole,
            "query_words_in_text": paired(asked, query, self._text_presence, document) / whole,
            "leaf_in_query": paired(asked, query, rare_leaf, document)
            / np.maximum(row_sums(rare_leaf), 1e-9)[document],
            "leaf_words_in_query": paired(asked, query, self.leaf, document)
            / np.maximum(row_sums(self.leaf), 1)[document],
            "title_cosine": paired(unit_rows(asked, self.title_idf), query, self.title_vectors, document),
            "text_cosine": paired(unit_rows(asked, self.idf), query, self.text_vectors, document),
            "query_words": sizes[query],
        }

    def _letters_shared(self, texts: Sequence[str], query: Any, document: Any) -> dict[str, Float64s]:
        """Matches of letters, which see through words that are joined or inflected."""
        known, title, ending = self._trigrams
        asked = presence([trigrams(text) for text in texts], known)
        rarity = inverse_frequency(title)
        rare = weigh(ending, rarity)
        leaves = [letters(leaf(title)) for title in self.documents.titles]
        runs = [letters(text) for text in texts]
        pairs = zip(query.tolist(), document.tolist(), strict=True)
        return {
            "leaf_letters": paired(asked, query, rare, document) / np.maximum(row_sums(rare), 1e-9)[document],
            "title_letters": paired(unit_rows(asked, rarity), query, unit_rows(title, rarity), document),
            "leaf_spelled_out": np.array([len(leaves[d]) if leaves[d] in runs[q] else 0 for q, d in pairs], np.float64),
        }

    def _neighbours(self, document: Any, lengths: Int64s) -> dict[str, Float64s]:
        """How many results of a list lie in the same place: where most of what matches lies, the query belongs."""
        owner = np.repeat(np.arange(len(lengths)), lengths)
        return {
            "list_same_site": _together(owner, self.documents.titles, site, document),
            "list_same_folder": _together(owner, self.documents.titles, folder, document),
        }

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        return numbered(word for body in self._bodies for word in body)

    @cached_property
    def text(self) -> scipy.sparse.csr_matrix:
        """Word counts (D, V) of the text, and of the title where the text lacks its words."""
        return count_matrix(self._bodies, self.vocabulary)

    @cached_property
    def title(self) -> scipy.sparse.csr_matrix:
        """Which words (D, V) a title has."""
        return presence([words(title) for title in self.documents.titles], self.vocabulary)

    @cached_property
    def leaf(self) -> scipy.sparse.csr_matrix:
        """Which words (D, V) the last part of a title has."""
        return presence([words(leaf(title)) for title in self.documents.titles], self.vocabulary)

    @cached_property
    def idf(self) -> Float64s:
        """(V,) how rare a word is among texts."""
        return inverse_frequency(self.text)

    @cached_property
    def title_idf(self) -> Float64s:
        """(V,) how rare a word is among titles."""
        return inverse_frequency(self.title)

    @cached_property
    def title_vectors(self) -> scipy.sparse.csr_matrix:
        """Titles (D, V) as vectors of length 1."""
        return unit_rows(self.title, self.title_idf)

    @cached_property
    def text_vectors(self) -> scipy.sparse.csr_matrix:
        """Texts (D, V) as vectors of length 1, ln(1 + count) times rarity."""
        return unit_rows(self.text.log1p(), self.idf)

    @cached_property
    def _bodies(self) -> list[Mapping[str, int]]:
        titles = self.documents.titles
        return [
            dict.fromkeys(words(title), 1) | dict(self.documents.words_of(number))
            for number, title in enumerate(titles)
        ]

    @cached_property
    def _text_presence(self) -> scipy.sparse.csr_matrix:
        return self.text.sign()

    @cached_property
    def _trigrams(self) -> tuple[dict[str, int], scipy.sparse.csr_matrix, scipy.sparse.csr_matrix]:
        """The trigrams of all titles, and which of them each title and each leaf has."""
        titles = self.documents.titles
        known = numbered(run for title in titles for run in trigrams(title))
        return (
            known,
            presence([trigrams(title) for title in titles], known),
            presence([trigrams(leaf(title)) for title in titles], known),
        )

    @cached_property
    def _bm25_text(self) -> scipy.sparse.csr_matrix:
        return bm25_weights(self.text)

    @cached_property
    def _bm25_title(self) -> scipy.sparse.csr_matrix:
        return bm25_weights(self.title)


def bm25_weights(counts: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """BM25's weight (D, V) of each word in each document, from word counts; k1 = 1.5, b = 0.75.

    ln(1 + (D - n + 0.5) / (n + 0.5)) * f / (f + k1 (1 - b + b * length / mean length)), Lucene's form.
    """
    try:
        import bm25s
    except ImportError as error:
        raise MissingExtraError("text matching with BM25", "search") from error
    if not counts.nnz:
        return counts
    repeated = np.repeat(counts.indices, counts.data.astype(np.int64))
    ends = np.cumsum(row_sums(counts)).astype(np.int64)
    corpus = [part.tolist() for part in np.split(repeated, ends[:-1])]
    engine = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    engine.index((corpus, {str(word): word for word in range(counts.shape[1])}), show_progress=False)
    found = engine.scores
    shape = counts.shape[0], len(found["indptr"]) - 1
    weights = scipy.sparse.csc_matrix((found["data"], found["indices"], found["indptr"]), shape=shape).tocsr()
    return weights[:, : counts.shape[1]]


def _together(owner: Int64s, titles: Sequence[str], place: Any, document: Any) -> Float64s:
    """How many results of its list are in the same place, for every result."""
    code = codes(map(place, titles))
    _, group, sizes = np.unique(owner * len(code) + code[document], return_inverse=True, return_counts=True)
    return np.asarray(sizes[group], np.float64)
