"""How well a query's text matches a document's: features that look at words only, never at a click.

A document has three fields: its text (the word counts of the log), its title (for a file or an address the whole path)
and its leaf (the last part of that path, without the extension). What a word weighs comes from the whole catalogue:
text without labels. Every feature is a number for a (query, document) pair.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from capse.arrays import Float64s, Int64s
from capse.search.features.feature_table import below_best, ranks_within
from capse.search.features.word_rows import Rows, paired
from capse.search.logs.documents import Documents, words
from capse.search.logs.titles import folder, leaf, path_parts, site
from capse.search.vectors.sparse_rows import codes

_NO_LETTERS = re.compile(r"[\W\d_]+")
_K1, _B = 1.5, 0.75  # of BM25
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


class Shape(NamedTuple):
    """What a document's title is made of."""

    site: str
    folder: str
    leaf: str  # its letters
    depth: int

    @classmethod
    def of(cls, title: str) -> Shape:
        return cls(site(title), folder(title), letters(leaf(title)), len(path_parts(title)))


@dataclass(frozen=True)
class DocumentFields:
    """D documents taken apart, as far as a catalogue knows their words."""

    shape: Sequence[Shape]
    text: Rows  # word counts of the text, and of the title where the text lacks its words
    title: Rows  # which words a title has
    leaf: Rows  # which words the last part of a title has
    rare_leaf: Rows  # the same, weighted by how rare a word is among titles
    bm25_text: Rows
    bm25_title: Rows
    text_vectors: Rows  # of length 1, ln(1 + count) times rarity
    title_vectors: Rows  # of length 1
    title_letters: Rows  # trigrams, of length 1
    leaf_letters: Rows  # trigrams, weighted by how rare they are

    def __len__(self) -> int:
        return len(self.shape)

    def take(self, numbers: Int64s) -> DocumentFields:
        """Some of the documents."""
        chosen = {name: getattr(self, name).take(numbers) for name in _ROWS}
        return DocumentFields([self.shape[number] for number in numbers.tolist()], **chosen)

    def followed_by(self, other: DocumentFields) -> DocumentFields:
        """These documents and then others."""
        stacked = {name: Rows.stacked([getattr(self, name), getattr(other, name)]) for name in _ROWS}
        return DocumentFields([*self.shape, *other.shape], **stacked)


_ROWS = [field.name for field in fields(DocumentFields) if field.name != "shape"]


@dataclass(frozen=True)
class TextMatch:
    """A catalogue: what its documents consist of, and what a word weighs."""

    documents: Documents

    def columns(
        self, taken: DocumentFields, document: Any, texts: Sequence[str], query: Any, lengths: Int64s
    ) -> dict[str, Float64s]:
        """Text-match features of results, given the place of each one's document and query, list after list."""
        columns = self._words_shared(taken, document, texts, query) | self._letters_shared(
            taken, document, texts, query
        )
        for name in COMPARED:
            columns[f"{name}.rank"] = ranks_within(columns[name], lengths)
            columns[f"{name}.below_best"] = below_best(columns[name], lengths)
        shapes, owner = [taken.shape[d] for d in document.tolist()], np.repeat(np.arange(len(lengths)), lengths)
        return columns | {
            "list_same_site": _together(owner, [shape.site for shape in shapes]),
            "list_same_folder": _together(owner, [shape.folder for shape in shapes]),
        }

    def taken_apart(self, documents: Documents) -> DocumentFields:
        """Documents of this catalogue or of none."""
        titles = documents.titles
        text = Rows.counted(_bodies(documents), self.vocabulary)
        title = Rows.present([words(title) for title in titles], self.vocabulary)
        last = Rows.present([words(leaf(title)) for title in titles], self.vocabulary)
        whole = Rows.present([trigrams(title) for title in titles], self._trigrams)
        end = Rows.present([trigrams(leaf(title)) for title in titles], self._trigrams)
        damped = Rows(text.starts, text.columns, np.log1p(text.values))
        return DocumentFields(
            [Shape.of(title) for title in titles],
            text,
            title,
            last,
            last.weighted(self.title_idf),
            bm25_weights(text, self.idf, self._mean_text),
            bm25_weights(title, self.title_idf, self._mean_title),
            damped.weighted(self.idf).unit(),
            title.weighted(self.title_idf).unit(),
            whole.weighted(self._trigram_rarity).unit(),
            end.weighted(self._trigram_rarity),
        )

    def shapes(self, taken: DocumentFields, document: Any) -> dict[str, Float64s]:
        """What documents look like, whatever the query."""
        depths = [taken.shape[number].depth for number in document.tolist()]
        return {
            "text_words": taken.text.sums[document],
            "title_words": taken.title.sums[document],
            "depth": np.array(depths, np.float64),
        }

    def _words_shared(
        self, taken: DocumentFields, document: Any, texts: Sequence[str], query: Any
    ) -> dict[str, Float64s]:
        """BM25, and shares of words that query and field have in common, plain and weighted by how rare a word is."""
        said = [set(words(text)) for text in texts]
        asked, sizes = Rows.present(said, self.vocabulary), np.array([len(each) for each in said], np.float64)
        rare = asked.weighted(self.idf)
        whole = np.maximum(sizes, 1)[query]
        unknown = (sizes - asked.sums) * self.rarest  # words of no document are the rarest of all
        heavy = np.maximum(rare.sums + unknown, 1e-9)[query]
        in_title, in_text = (
            paired(asked, query, taken.title, document),
            paired(asked, query, taken.text.signs, document),
        )
        leaf_weight = np.maximum(taken.rare_leaf.sums[document], 1e-9)
        leaf_size = np.maximum(taken.leaf.sums[document], 1)
        return {
            "bm25_text": paired(asked, query, taken.bm25_text, document),
            "bm25_title": paired(asked, query, taken.bm25_title, document),
            "query_in_title": paired(rare, query, taken.title, document) / heavy,
            "query_in_leaf": paired(rare, query, taken.leaf, document) / heavy,
            "query_in_text": paired(rare, query, taken.text.signs, document) / heavy,
            "query_words_in_title": in_title / whole,
            "query_words_in_text": in_text / whole,
            "leaf_in_query": paired(asked, query, taken.rare_leaf, document) / leaf_weight,
            "leaf_words_in_query": paired(asked, query, taken.leaf, document) / leaf_size,
            "title_cosine": paired(asked.weighted(self.title_idf).unit(), query, taken.title_vectors, document),
            "text_cosine": paired(rare.unit(), query, taken.text_vectors, document),
            "query_words": sizes[query],
        }

    def _letters_shared(
        self, taken: DocumentFields, document: Any, texts: Sequence[str], query: Any
    ) -> dict[str, Float64s]:
        """Matches of letters, which see through words that are joined or inflected."""
        asked = Rows.present([trigrams(text) for text in texts], self._trigrams)
        runs = [letters(text) for text in texts]
        pairs = ((runs[q], taken.shape[d].leaf) for q, d in zip(query.tolist(), document.tolist(), strict=True))
        spelled_out = [len(leaf) if leaf in run else 0 for run, leaf in pairs]
        ending = np.maximum(taken.leaf_letters.sums[document], 1e-9)
        unit = asked.weighted(self._trigram_rarity).unit()
        return {
            "leaf_letters": paired(asked, query, taken.leaf_letters, document) / ending,
            "title_letters": paired(unit, query, taken.title_letters, document),
            "leaf_spelled_out": np.array(spelled_out, np.float64),
        }

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The place of each document in the catalogue."""
        return {label: number for number, label in enumerate(self.documents.ids)}

    @cached_property
    def taken(self) -> DocumentFields:
        """All documents of the catalogue."""
        return self.taken_apart(self.documents)

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        return _sorted_numbers(_bodies(self.documents))

    @cached_property
    def idf(self) -> Float64s:
        """(V,) how rare a word is among texts."""
        return Rows.counted(_bodies(self.documents), self.vocabulary).rarity(len(self.vocabulary))

    @cached_property
    def rarest(self) -> float:
        """The weight of the rarest word, and of one that no document has."""
        return float(self.idf.max(initial=0.0))

    @cached_property
    def title_idf(self) -> Float64s:
        """(V,) how rare a word is among titles."""
        titles = [words(title) for title in self.documents.titles]
        return Rows.present(titles, self.vocabulary).rarity(len(self.vocabulary))

    @cached_property
    def _mean_text(self) -> float:
        return _mean([sum(body.values()) for body in _bodies(self.documents)])

    @cached_property
    def _mean_title(self) -> float:
        return _mean([len(set(words(title))) for title in self.documents.titles])

    @cached_property
    def _trigrams(self) -> dict[str, int]:
        return _sorted_numbers(trigrams(title) for title in self.documents.titles)

    @cached_property
    def _trigram_rarity(self) -> Float64s:
        titles = [trigrams(title) for title in self.documents.titles]
        return Rows.present(titles, self._trigrams).rarity(len(self._trigrams))


def bm25_weights(counts: Rows, rarity: Float64s, mean_length: float) -> Rows:
    """BM25's weight of each word in each document, from word counts; k1 = 1.5, b = 0.75, Lucene's form.

    rarity * f / (f + k1 (1 - b + b * length / mean length)).
    """
    lengths = counts.sums[counts.owner]
    damping = _K1 * (1 - _B + _B * lengths / (mean_length or 1.0))
    return Rows(counts.starts, counts.columns, rarity[counts.columns] * counts.values / (counts.values + damping))


def _bodies(documents: Documents) -> list[Mapping[str, int]]:
    return [
        dict.fromkeys(words(title), 1) | dict(documents.words_of(number))
        for number, title in enumerate(documents.titles)
    ]


def _sorted_numbers(texts: Any) -> dict[str, int]:
    """A number for each word, in alphabetical order: the same whatever order the texts are in."""
    return {word: number for number, word in enumerate(sorted({word for text in texts for word in text}))}


def _mean(lengths: Sequence[float]) -> float:
    return sum(lengths) / len(lengths) if lengths else 0.0


def _together(owner: Int64s, places: Sequence[str]) -> Float64s:
    """How many results of its list are in the same place, for every result."""
    code = codes(places)
    _, group, sizes = np.unique(owner * (len(code) + 1) + code, return_inverse=True, return_counts=True)
    return np.asarray(sizes[group], np.float64)
