"""What a file says again and again takes no room, and is counted."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from capse.graph.dataset import read_graph
from capse.graph.readers import delimited, read_triples

LINES = 100_000


def tsv(rows: int) -> bytes:
    return b"".join(b"a%d\tlikes\tb\n" % (number % 3) for number in range(rows))


def csv(rows: int) -> bytes:
    return b"tail,relation,head\n" + tsv(rows).replace(b"\t", b",")


def json_lines(rows: int) -> bytes:
    return b"".join(json.dumps([f"a{number % 3}", "likes", "b"]).encode() + b"\n" for number in range(rows))


@pytest.mark.parametrize(
    ("name", "compress", "lines"),
    [
        ("x.tsv.gz", gzip.compress, tsv),
        ("x.tsv.bz2", bz2.compress, tsv),
        ("x.tsv.xz", lzma.compress, tsv),
        ("x.csv.gz", gzip.compress, csv),
        ("x.jsonl.gz", gzip.compress, json_lines),
    ],
)
def test_a_small_file_of_many_equal_lines_stays_small(
    tmp_path: Path, name: str, compress: Callable[[bytes], bytes], lines: Callable[[int], bytes]
) -> None:
    path, content = tmp_path / name, compress(lines(LINES))
    path.write_bytes(content)
    assert len(content) < LINES
    assert read_triples(path).table.num_rows < LINES // 2
    graph = read_graph("x", {"train": [path]})
    assert len(graph.train) == 3
    assert graph.repeated["train"] == LINES - 3


def test_the_first_of_each_is_kept_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_bytes(b"z\tr\tz\n" + tsv(LINES) + b"y\tr\ty\n")
    rows = [tuple(row.values()) for row in read_triples(path).table.to_pylist()]
    assert rows[:4] == [("z", "r", "z"), ("a0", "likes", "b"), ("a1", "likes", "b"), ("a2", "likes", "b")]
    assert rows[-1] == ("y", "r", "y")


def test_rows_that_differ_stay(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("".join(f"a{number}\tr\tb{number % 7}\n" for number in range(100_000)))
    source = read_triples(path)
    assert (source.table.num_rows, source.repeated) == (100_000, 0)


def test_what_is_too_large_to_unpack_is_read_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.tsv.xz"
    path.write_bytes(lzma.compress(tsv(50)))
    assert delimited.fast_table(path, "\t").num_rows == 50
    monkeypatch.setattr(delimited, "_MOST_HELD", 49)
    assert delimited.fast_table(path, "\t") is None
    assert read_triples(path).table.num_rows == 50
