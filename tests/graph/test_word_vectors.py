"""Word vectors as the field's three tools write them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from capse.errors import DataError
from capse.graph.word_vectors import read_word_vectors

GLOVE = "new 1 0.5\nyork 0 -3e-1\n"
WORD2VEC = "2 2\n" + GLOVE
FASTTEXT = "2 2\nnew 1 0.5 \nyork 0 -3e-1 \n"


@pytest.mark.parametrize("content", [GLOVE, WORD2VEC, FASTTEXT, FASTTEXT.replace("\n", "\r\n")])
@pytest.mark.parametrize("name", ["words.txt", "wiki.vec", "wiki.vec.gz"])
def test_glove_word2vec_and_fasttext(tmp_path: Path, content: str, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    vectors = read_word_vectors(path, {"new", "york", "2"})
    assert {word: vector.tolist() for word, vector in vectors.items()} == {
        "new": [1.0, 0.5],
        "york": [0.0, pytest.approx(-0.3)],
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("3 2\n" + GLOVE, "its first line says 3 words, and it has 2"),
        ("1 2\n" + GLOVE, "its first line says 1 words, and it has 2"),
        ("2 3\n" + GLOVE, "line 2: 2 numbers instead of 3"),
        ("5 0\n", "empty"),
    ],
)
def test_a_first_line_that_is_not_true(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "words.vec"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_word_vectors(path, {"new"})
