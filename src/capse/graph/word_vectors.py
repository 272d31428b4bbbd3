"""Entity vectors from word vectors: the mean of the vectors of the words in an entity's name.

The paper starts WordNet's entities so, from GloVe (Pennington et al., EMNLP 2014; Pinter and Eisenstein, EMNLP 2018).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from capse.errors import DataError
from capse.graph.readers.files import lines

_REMEDY = "give a text file with a word and its numbers on each line, separated by single spaces, as GloVe has it"
_HEADER = re.compile(r"\d+ \d+")
_SEPARATORS = re.compile(r"[\W_]+")


def words_of(name: str) -> list[str]:
    """The words of a name, in lower case.

    >>> words_of("take_a_breath|Respire")
    ['take', 'a', 'breath', 'respire']
    """
    return [word for word in _SEPARATORS.split(name.lower()) if word]


def read_word_vectors(path: Path, wanted: set[str]) -> dict[str, npt.NDArray[np.float32]]:
    """The vectors of the wanted words in a text of GloVe, word2vec or fastText; all lines are checked, wanted or not.

    The latter two begin with a line 'COUNT WIDTH', which must be true, and may end each line with a space.
    """
    vectors: dict[str, npt.NDArray[np.float32]] = {}
    width, count, number = 0, None, 0
    for number, line in lines(path):
        text = line.rstrip(" \r\n")
        if number == 1 and _HEADER.fullmatch(text):
            count, width = map(int, text.split())
            continue
        word, _, rest = text.partition(" ")
        try:
            vector = np.array(rest.split(" "), np.float32)
        except ValueError as error:
            raise DataError(f"{path}, line {number}: {word!r} is not followed by numbers", _REMEDY) from error
        width = width or len(vector)
        if len(vector) != width:
            raise DataError(f"{path}, line {number}: {len(vector)} numbers instead of {width}", _REMEDY)
        if not np.isfinite(vector).all():
            raise DataError(f"{path}, line {number}: the vector of {word!r} has NaN or infinity", "remove the line")
        if word in wanted:
            vectors[word] = vector
    if not width:
        raise DataError(f"{path}: empty", _REMEDY)
    if count not in (None, number - 1):
        stated = f"its first line says {count:,} words, and it has {number - 1:,}"
        raise DataError(f"{path}: {stated}", "get the whole file, or correct its first line")
    return vectors


def average_word_vectors(names: Sequence[str], path: Path) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """For each name the mean of its words' vectors (n, k), and which names have a word in the file (n,)."""
    words = [words_of(name) for name in names]
    vectors = read_word_vectors(path, {word for name in words for word in name})
    if not vectors:
        raise DataError(f"{path}: no word of any name is in it", "give names in the language of the word vectors")
    width = len(next(iter(vectors.values())))
    means = np.zeros((len(names), width), np.float32)
    covered = np.zeros(len(names), bool)
    for i, name in enumerate(words):
        found = [vectors[word] for word in name if word in vectors]
        if found:
            means[i] = np.mean(found, axis=0)
            covered[i] = True
    return means, covered
