"""Vectors in files: both forms, and what is wrong with a file in one line."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from capse.errors import DataError
from capse.search.vectors.vector_files import VectorTable, read_vectors, write_vectors

TABLE = VectorTable(["a", "bé", "c"], np.array([[1, 2], [3.5, -4], [0, 1e-7]], np.float32))


def test_parquet_comes_back_as_it_was(tmp_path):
    write_vectors(tmp_path / "v.parquet", TABLE)
    found = read_vectors(tmp_path / "v.parquet")
    assert found.labels == TABLE.labels
    assert np.array_equal(found.rows, TABLE.rows)


@pytest.mark.parametrize("name", ["v.txt", "v.init.gz"])
def test_text_lines(tmp_path, name):
    text = "a 1 2\n\nbé\t3.5  -4.0E0\nc 0 1e-7\n"
    with (
        gzip.open(tmp_path / name, "wt", encoding="utf-8")
        if name.endswith("gz")
        else (tmp_path / name).open("w", encoding="utf-8") as file
    ):
        file.write(text)
    found = read_vectors(tmp_path / name)
    assert found.labels == TABLE.labels
    assert np.array_equal(found.rows, TABLE.rows)


def test_looking_up():
    rows, there = TABLE.of(["c", "nobody", "a"])
    assert rows.tolist() == [TABLE.rows[2].tolist(), [0, 0], [1, 2]]
    assert there.tolist() == [True, False, True]
    assert TABLE.get("nobody") is None
    assert TABLE.get("a").tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no vectors"),
        ("a\nb\n", "holds no vectors"),
        ("a 1 2\nb 1\n", "line 2: 1 numbers instead of 2"),
        ("a 1 x\n", "line 1: 'a' is not followed by numbers"),
        ("a 1 2\na 3 4\n", "has two vectors of 'a': keep one of them"),
        ("a 1 nan\n", "the vector of 'a' has NaN or infinity"),
        ("a 1 1e99\n", "the vector of 'a' has NaN or infinity"),
    ],
)
def test_a_text_file_that_is_wrong(tmp_path, text, message):
    (tmp_path / "v.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        read_vectors(tmp_path / "v.txt")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label": ["a"]}, "cannot be read"),
        ({"label": ["a", None], "vector": [[1.0], [2.0]]}, "lacks a label or a vector"),
        ({"label": ["a", "b"], "vector": [[1.0], [2.0, 3.0]]}, "vectors of different lengths"),
        ({"label": ["a", "b"], "vector": [[1.0], None]}, "lacks a label or a vector"),
        ({"label": ["a"], "vector": [[None]]}, "NaN or infinity"),
        ({"label": ["a"], "vector": ["text"]}, "cannot be read"),
    ],
)
def test_a_parquet_file_that_is_wrong(tmp_path, columns, message):
    pq.write_table(pa.table(columns), tmp_path / "v.parquet")
    with pytest.raises(DataError, match=message) as caught:
        read_vectors(tmp_path / "v.parquet")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "content"), [("v.txt", b"\xff\xfe 1 2"), ("v.gz", b"no gzip"), ("v.parquet", b"no")])
def test_a_file_that_cannot_be_read(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match="cannot be read"):
        read_vectors(tmp_path / name)
    with pytest.raises(DataError, match="cannot be read"):
        read_vectors(tmp_path / f"missing-{name}")
