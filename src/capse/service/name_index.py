"""Finding entities and relations by what people type: the beginning of a name, of a word in it, or something like it.

Texts are compared in their case-folded form, labels and names as they are and as people write them: `dog.n` is found
as "dog", `also_see` as "also see". Beginnings are found by bisection in sorted lists, the shortest text first: it has
least that was not asked for. What is misspelt is found by edit distance among the texts that share most trigrams.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np

from capse.arrays import Int64s
from capse.errors import UnknownNameError
from capse.graph.vocabulary import Vocabulary

_CANDIDATES = 40  # texts that share most trigrams with what was typed, of which the nearest are looked for
_MOST_LETTERS = 100  # of a text, when trigrams are made
_LETTER_BITS = 21  # of a code point: three of them make one number of 63 bits
_TEXTS_OF_ONE = 4  # labels and names, as they are and as they are written
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
        texts: list[str] = []
        owners: list[int] = []
        for i, label in enumerate(vocabulary.labels):
            name = label if vocabulary.names is None else vocabulary.names[i]
            known = {label.casefold(): None, name.casefold(): None}
            known |= {_as_written(text): None for text in known}
            texts += known
            owners += [i] * len(known)
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
        prefix = (Match(i, "prefix") for i in self._whole.beginning_with(text, limit))
        word = (Match(i, "word") for i in self._words.beginning_with(text, limit))
        similar = (Match(i, "similar") for i in self._trigrams.similar(text))
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
        self.lengths = np.array([len(text) for text in self.texts], np.int64)

    def equal(self, text: str) -> Iterator[int]:
        for place in range(bisect_left(self.texts, text), len(self.texts)):
            if self.texts[place] != text:
                return
            yield self.owners[place]

    def beginning_with(self, text: str, limit: int) -> Iterator[int]:
        """The owners of texts that begin so, the shortest first; all of them in their order for an empty text.

        Up to ``limit`` different ones at least: an owner may have several texts.
        """
        start, end = bisect_left(self.texts, text), bisect_left(self.texts, text + _AFTER_ALL)
        if not text:
            yield from self.owners
            return
        lengths = self.lengths[start:end]
        most = _TEXTS_OF_ONE * limit
        near = np.arange(end - start) if end - start <= most else np.argpartition(lengths, most)[:most]
        for place in near[np.lexsort((near, lengths[near]))].tolist():
            yield self.owners[start + place]


class _Trigrams:
    """Which texts have which trigrams, as lists one after the other."""

    def __init__(self, texts: list[str], owners: Int64s) -> None:
        self.all, self.owners = texts, owners
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

    def similar(self, text: str) -> Iterator[int]:
        """Owners of texts in which a word begins with something like this. Nothing is done until it is asked."""
        allowed = misspellings(text)
        if not allowed:
            return
        wanted = np.unique(_codes([text])[0])
        places = np.searchsorted(self.codes, wanted)
        places = places[(places < len(self.codes)) & (self.codes[np.minimum(places, len(self.codes) - 1)] == wanted)]
        lists = [self.texts[self.offsets[place] : self.offsets[place + 1]] for place in places]
        if not lists:
            return
        shared = np.bincount(np.concatenate(lists), minlength=len(self.sizes))
        near = np.flatnonzero(shared)
        if len(near) > _CANDIDATES:
            share = shared[near] + 1 / (1 + self.sizes[near])  # of equal ones, the shortest
            near = near[np.argpartition(-share, _CANDIDATES)[:_CANDIDATES]]
        ranked = sorted(
            (distance(text, self.all[place], allowed), len(self.all[place]), place) for place in near.tolist()
        )
        for found, _, place in ranked:
            if found <= allowed:
                yield int(self.owners[place])


def misspellings(text: str) -> int:
    """How many letters of what was typed may be wrong: one of up to four, one more for every four; none of two."""
    return (len(text) + 3) // 4 if len(text) > 2 else 0


def distance(typed: str, text: str, most: int) -> int:
    """Letters to insert, drop, replace or swap to make what was typed the beginning of a word of a text, or of several.

    >>> distance("untied sates", "the united states", 3), distance("elefant", "elephants", 2), distance("dog", "cat", 1)
    (2, 2, 2)

    What is more than ``most`` is not worked out further.
    """
    return min(
        _to_beginning(typed, text[start : start + len(typed) + most], most) for start in [0, *_word_starts(text)]
    )


def _to_beginning(typed: str, text: str, most: int) -> int:
    """The same for the beginning of the text alone (optimal string alignment, the end of the text being free)."""
    before: list[int] = []
    row = list(range(len(text) + 1))
    for i, letter in enumerate(typed, start=1):
        earlier, before, row = before, row, [i]
        for j, other in enumerate(text, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == text[j - 2] and typed[i - 2] == other:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return min(row)


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


_SENSE = re.compile(r"(?:\.[a-z](?:[.#]\d+)?|_[a-z]{2}_\d+)$")  # WordNet's: of dog.n, dog.n.01, dog.n#2 and dog_NN_1


def _as_written(text: str) -> str:
    """As people would write a name that is made for machines.

    >>> _as_written("dog.n"), _as_written("__hot_dog_nn_1"), _as_written("_also_see"), _as_written("kenya")
    ('dog', 'hot dog', 'also see', 'kenya')
    """
    return _SENSE.sub("", text).replace("_", " ").strip() or text


def _word_starts(text: str) -> Iterator[int]:
    """Where words other than the first begin.

    >>> list(_word_starts("united states_of")), list(_word_starts("/film/actor"))
    ([7, 14], [1, 6])
    """
    for place in range(1, len(text)):
        if text[place].isalnum() and not text[place - 1].isalnum():
            yield place
