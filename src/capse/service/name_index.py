"""Finding entities and relations by what people type: the beginning of a name, of a word in it, or something like it.

Texts are compared in their case-folded form. Beginnings are found by bisection in sorted lists. What is merely similar
is found by trigrams: a text is the set of its substrings of three letters, with a space before and after it, and the
similarity of two texts is |A ∩ B| / |A ∪ B|.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal

import numpy as np

from capse.arrays import Int64s
from capse.errors import UnknownNameError
from capse.graph.vocabulary import Vocabulary

LEAST_SIMILARITY = 0.2
_MOST_LETTERS = 100  # of a text, when trigrams are made
_LETTER_BITS = 21  # of a code point: three of them make one number of 63 bits
_AFTER_ALL = chr(0x10FFFF)

How = Literal["exact", "prefix", "word", "similar"]


@dataclass(frozen=True)
class Match:
    """An id and how it was found."""

    id: int
    kind: How


class NameIndex:
    """The labels and names of a vocabulary, in the orders that look-ups need.

    >>> index = NameIndex(Vocabulary.of(["de", "us"], {"de": "Germany", "us": "United States"}, kind="entity"))
    >>> [(match.id, match.kind) for match in index.find("ger")], [match.kind for match in index.find("states")]
    ([(0, 'prefix')], ['word'])
    >>> [(match.id, match.kind) for match in index.find("Untied Sates")]
    [(1, 'similar')]
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        size = len(vocabulary)
        texts = [text.casefold() for text in vocabulary.labels]
        owners = list(range(size))
        if vocabulary.names is not None:
            for i, name in enumerate(vocabulary.names):
                if name != vocabulary.labels[i]:
                    texts.append(name.casefold())
                    owners.append(i)
        self._whole = _Sorted(zip(texts, owners, strict=True))
        self._words = _Sorted(
            (text[start:], i) for text, i in zip(texts, owners, strict=True) for start in _word_starts(text)
        )
        self._trigrams = _Trigrams(texts, np.array(owners, np.int64))
        vocabulary.find("")  # builds what finding by name needs

    def find(self, text: str, limit: int = 10) -> list[Match]:
        """The ids that ``text`` may mean, the likeliest first; the first ones of all for an empty text."""
        text = text.casefold()
        found: dict[int, Match] = {}
        exact = (Match(i, "exact") for i in self._whole.equal(text))
        prefix = (Match(i, "prefix") for i in self._whole.beginning_with(text))
        word = (Match(i, "word") for i in self._words.beginning_with(text))
        similar = (Match(i, "similar") for i in self._trigrams.similar(text, limit) if text)
        for match in chain(exact, prefix, word, similar):
            found.setdefault(match.id, match)
            if len(found) == limit:
                break
        return list(found.values())

    def id(self, text: str) -> int:
        """The id of a label or name, as `Vocabulary.id` gives it, with the nearest names where there is none."""
        place = self.vocabulary.find(text)
        if place is None:
            nearest = [self.vocabulary.name(match.id) for match in self.find(text, 3)]
            raise UnknownNameError(self.vocabulary.kind, text, nearest, f"look it up with /v1/{self.plural}?q=")
        return place

    @property
    def plural(self) -> str:
        return "relations" if self.vocabulary.kind == "relation" else "entities"


class _Sorted:
    """Texts in order, and whose they are."""

    def __init__(self, pairs: Iterable[tuple[str, int]]) -> None:
        ordered = sorted(pairs)
        self.texts = [text for text, _ in ordered]
        self.owners = [owner for _, owner in ordered]

    def equal(self, text: str) -> Iterator[int]:
        for place in range(bisect_left(self.texts, text), len(self.texts)):
            if self.texts[place] != text:
                return
            yield self.owners[place]

    def beginning_with(self, text: str) -> Iterator[int]:
        return islice(self.owners, bisect_left(self.texts, text), bisect_left(self.texts, text + _AFTER_ALL))


class _Trigrams:
    """Which texts have which trigrams, as lists one after the other."""

    def __init__(self, texts: list[str], owners: Int64s) -> None:
        self.owners = owners
        codes, lengths = _codes(texts)
        of_text = np.repeat(np.arange(len(texts)), lengths)
        order = np.lexsort((of_text, codes))
        codes, of_text = codes[order], of_text[order]
        first = np.ones(len(codes), bool)
        first[1:] = (codes[1:] != codes[:-1]) | (of_text[1:] != of_text[:-1])  # a text has a trigram once
        codes, self.texts = codes[first], of_text[first].astype(np.int32)
        self.codes, starts = np.unique(codes, return_index=True)
        self.offsets = np.append(starts, len(codes))
        self.sizes = np.bincount(self.texts, minlength=len(texts))

    def similar(self, text: str, limit: int) -> Iterator[int]:
        """Owners of the most similar texts, best first. A generator, so that nothing is done until it is asked."""
        wanted = np.unique(_codes([text])[0])
        places = np.searchsorted(self.codes, wanted)
        places = places[(places < len(self.codes)) & (self.codes[np.minimum(places, len(self.codes) - 1)] == wanted)]
        lists = [self.texts[self.offsets[place] : self.offsets[place + 1]] for place in places]
        if not lists:
            return
        shared = np.bincount(np.concatenate(lists), minlength=len(self.sizes))
        similarity = shared / (len(wanted) + self.sizes - shared)
        near = np.flatnonzero(similarity >= LEAST_SIMILARITY)
        if len(near) > 3 * limit:  # a label and a name may both be found
            near = near[np.argpartition(-similarity[near], 3 * limit)[: 3 * limit]]
        yield from self.owners[near[np.lexsort((near, -similarity[near]))]].tolist()


def _codes(texts: list[str]) -> tuple[Int64s, Int64s]:
    """The trigrams of every text as numbers, one text after the other, and how many each has."""
    padded = [f" {text[:_MOST_LETTERS]} " for text in texts]
    lengths = np.array([len(text) for text in padded], np.int64)
    letters = np.frombuffer("".join(padded).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)
    codes = (letters[:-2] << 2 * _LETTER_BITS) | (letters[1:-1] << _LETTER_BITS) | letters[2:]
    whole = np.ones(len(letters), bool)  # whether three letters of one text begin here
    ends = np.cumsum(lengths)
    whole[ends - 1] = whole[ends - 2] = False
    return codes[whole[:-2]], np.maximum(lengths - 2, 0)


def _word_starts(text: str) -> Iterator[int]:
    """Where words other than the first begin.

    >>> list(_word_starts("united states_of")), list(_word_starts("/film/actor"))
    ([7, 14], [1, 6])
    """
    for place in range(1, len(text)):
        if text[place].isalnum() and not text[place - 1].isalnum():
            yield place
