"""Every format, plain and compressed, and every way in which a file can be bad."""

import bz2
import errno
import gzip
import json
import lzma
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from capse.errors import DataError, MissingExtraError
from capse.graph.readers import delimited, read_triples
from capse.graph.readers.files import LONGEST_LINE, lines
from capse.graph.readers.rows import LONGEST_LABEL, table_of

ROWS = [("http://x/a", "http://x/likes", "http://x/b"), ("http://x/b", "http://x/likes", "http://x/ü")]


def parquet_bytes(*columns, names=("head", "relation", "tail")):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(list(columns), names=list(names)), sink)
    return sink.getvalue().to_pybytes()


TEXT = {
    ".tsv": "".join("\t".join(row) + "\n" for row in ROWS).encode(),
    ".txt": "\r\n".join("\t".join(row) for row in ROWS).encode(),
    ".csv": ("subject,predicate,object\n" + "".join(",".join(row) + "\n" for row in ROWS)).encode(),
    ".jsonl": "".join(
        json.dumps(dict(zip(("head", "relation", "tail"), row, strict=True))) + "\n" for row in ROWS
    ).encode(),
    ".ndjson": "".join(json.dumps(row) + "\n" for row in ROWS).encode(),
    ".nt": "".join(" ".join(f"<{iri}>" for iri in row) + " .\n" for row in ROWS).encode(),
    ".ttl": "@prefix : <http://x/> .\n:a :likes :b . :b :likes :ü .\n".encode(),
    ".parquet": parquet_bytes(*zip(*ROWS, strict=True)),
}
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda content: pa.compress(content, codec="zstd", asbytes=True),
}


def read(folder, name, content):
    path = Path(folder, name)
    path.write_bytes(content)
    return rows_of(read_triples(path).table)


def rows_of(table):
    return [tuple(row.values()) for row in table.to_pylist()]


def plain_table(path, delimiter):
    return table_of(path, delimited.Delimited(delimiter).rows(path), "")


def error_of(folder, name, content):
    with pytest.raises(DataError) as caught:
        read(folder, name, content)
    message = str(caught.value)
    assert message.startswith(str(Path(folder, name)))
    assert "\n" not in message
    assert caught.value.remedy
    return message.removeprefix(str(Path(folder, name)))


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("suffix", TEXT)
def test_every_format_plain_and_compressed(tmp_path, suffix, compression):
    assert read(tmp_path, f"graph{suffix}{compression}", COMPRESS[compression](TEXT[suffix])) == ROWS


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("quotes.tsv", b'"a\tis "b"\tc"\n', ('"a', 'is "b"', 'c"')),
        ("header.tsv", b"Tail\tHead\tRelation\nc\ta\tb\n", ("a", "b", "c")),
        ("mark.tsv", b"\xef\xbb\xbfa\tb\tc\n", ("a", "b", "c")),
        ("old_mac.tsv", b"a\tb\tc\r", ("a", "b", "c")),
        ("spaces.tsv", b" a \tb b\tc\n", (" a ", "b b", "c")),
        ("quoted.csv", b'"a, the first","say ""b""",c\r\n', ("a, the first", 'say "b"', "c")),
        ("quoted_header.csv", b'"relation","head","tail"\n"b","a","c"\n', ("a", "b", "c")),
        ("numbers.jsonl", b"[1, 2, 3]\n", ("1", "2", "3")),
        ("extra.jsonl", b'{"since": 1, "object": "c", "subject": "a", "predicate": "b"}\n', ("a", "b", "c")),
    ],
)
def test_unusual_but_right(tmp_path, name, content, expected):
    assert read(tmp_path, name, content) == [expected]


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ((["b"], ["x"], ["c"], ["a"]), ("predicate", "note", "object", "subject")),
        ((["a"], ["b"], ["c"], ["x"]), ("x1", "x2", "x3", "x4")),
        ((["a"], ["b"], ["c"]), ("x1", "x2", "x3")),
        ((pa.array(["a"], pa.large_string()), ["b"], ["c"]), ("h", "r", "t")),
        ((pa.array(["a", "unused", ""]).dictionary_encode()[:1], ["b"], ["c"]), ("head", "relation", "tail")),
        ((pa.array(["a"]).cast(pa.dictionary(pa.int8(), pa.string())), ["b"], ["c"]), ("head", "relation", "tail")),
    ],
)
def test_parquet_columns(tmp_path, columns, names):
    assert read(tmp_path, "graph.parquet", parquet_bytes(*columns, names=names)) == [("a", "b", "c")]


def test_a_file_that_cannot_be_read_says_why(tmp_path, monkeypatch):
    def failing(*arguments, **more):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("capse.graph.readers.files.open_binary", failing)
    with pytest.raises(DataError, match=r"graph\.txt: cannot be read \(Input/output error\)"):
        list(lines(tmp_path / "graph.txt"))


def test_parquet_numbers_are_labels(tmp_path):
    assert read(tmp_path, "graph.parquet", parquet_bytes([10], [2], [7])) == [("10", "2", "7")]


def test_rdf_literals_and_blank_nodes_are_counted_and_labels_become_names(tmp_path):
    path = tmp_path / "graph.ttl"
    path.write_text(
        "@prefix : <http://x/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        ":a :likes :b ; :age 7 ; rdfs:label 'Der A'@de , 'The\\nA'@en-GB , 'Also A'@en .\n"
        "_:n :likes :a . :b :likes [ :age 3 ] ; rdfs:label 'Das B'@de ."
    )
    source = read_triples(path)
    assert rows_of(source.table) == [("http://x/a", "http://x/likes", "http://x/b")]
    assert source.names == {"http://x/a": "The A", "http://x/b": "Das B"}
    assert source.skipped == 3
    assert source.values == [("http://x/a", "http://x/age", 7.0)]


def test_rdf_without_its_library(tmp_path):
    with mock.patch.dict(sys.modules, {"pyoxigraph": None}), pytest.raises(MissingExtraError, match=r"capse\[rdf\]"):
        read(tmp_path, "graph.nt", TEXT[".nt"])


def test_other_formats_do_not_load_the_rdf_library():
    code = "import capse.graph, sys; sys.exit('pyoxigraph' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.tsv", b"", ": no triples in it"),
        ("empty.csv", b"", ": no triples in it"),
        ("empty.jsonl", b"", ": no triples in it"),
        ("empty.nt", b"", ": no triples in it"),
        ("empty.tsv.gz", gzip.compress(b""), ": no triples in it"),
        ("header_only.csv", b"head,relation,tail\n", ": no triples in it"),
        ("two.tsv", b"a\tb\tc\na\tb\n", ", line 2: 2 columns instead of 3"),
        ("four.tsv", b"a\tb\tc\td\n", ", line 1: 4 columns instead of 3"),
        ("two.csv", b"a,b,c\na,b\n", ", line 2: 2 columns instead of 3"),
        ("two.jsonl", b'["a", "b"]\n', ", line 1: 2 columns instead of 3"),
        ("spaces.txt", b"a b c\n", ", line 1: 1 column instead of 3"),
        ("header_then_two.csv", b"head,relation,tail\na,b,c\na,b\n", ", line 3: 2 columns instead of 3"),
        ("blank.tsv", b"a\tb\tc\n\na\tb\tc\n", ", line 2: a blank line"),
        ("blank_end.tsv", b"a\tb\tc\n\n", ", line 2: a blank line"),
        ("blank.csv", b"a,b,c\r\n\r\na,b,c\r\n", ", line 2: a blank line"),
        ("blank.jsonl", b'["a", "b", "c"]\n \n', ", line 2: a blank line"),
        ("field.tsv", b"a\tb\tc\na\t\tc\n", ", line 2: an empty field"),
        ("field.csv", b'a,"",c\n', ", line 1: an empty field"),
        ("field.jsonl", b'["a", "", "c"]\n', ", line 1: an empty field"),
        ("utf8.tsv", b"a\tb\tc\na\tb\t\xff\n", ", line 2: not UTF-8 text"),
        ("utf8.jsonl", b'["a", "b", "\xff"]\n', ", line 1: not UTF-8 text"),
        ("cut_utf16.tsv", "a\tb\tc\n".encode("utf-16")[:-1], ", line 1: not UTF-8 text"),
        ("gzip_inside.tsv", gzip.compress(b"a\tb\tc\n"), ", line 1: not UTF-8 text"),
        ("picture.tsv", b"\x89PNG\r\n\x1a\n\0\0\0", ", line 1: not UTF-8 text"),
        ("line.tsv", b"a\tb\tc\n" + b"x" * (LONGEST_LINE + 1), f", line 2: longer than {LONGEST_LINE:,} characters"),
        ("label.tsv", b"a\tb\t" + b"x" * (LONGEST_LABEL + 1), ", line 1: a label of more than 65,536 characters"),
        ("label.csv", b"a,b," + b"x" * 140_000, ", line 1: field larger than field limit"),
        ("break.csv", b'a,b,"c\nd"\n', ", line 2: a label with a tab or a line break in it"),
        ("tab.jsonl", b'["a", "b\\t", "c"]\n', ", line 1: a label with a tab or a line break in it"),
        ("surrogate.jsonl", b'["a", "b", "\\ud800"]\n', ", line 1: a label that is not valid Unicode"),
        ("open_quote.csv", b'a,b,c\na,b,"c\n', ", line 2: unexpected end of data"),
        ("after_quote.csv", b'a,b,"c"d\n', ", line 1: ',' expected after '\"'"),
        ("json.jsonl", b'["a", "b", "c"]\n{"head"\n', ", line 2: not JSON"),
        ("deep.jsonl", b"[" * 100_000, ", line 1: not JSON"),
        ("keys.jsonl", b'{"head": "a", "tail": "b"}\n', ", line 1: no relation"),
        ("scalar.jsonl", b'"a"\n', ', line 1: "a" is not a triple'),
        ("null.jsonl", b'["a", null, "c"]\n', ", line 1: no relation"),
        ("true.jsonl", b'["a", true, "c"]\n', ", line 1: True is not a label"),
        ("rdf.nt", b"<http://a> <http://b> <http://c> .\n<http://a> <b> .\n", ", line 2: No scheme found"),
        ("rdf.ttl", b"<http://a> <http://b> \xff .\n", ", line 1: Invalid UTF-8"),
        ("literals.nt", b'<http://a> <http://b> "c" .\n', ": no triples in it"),
        ("cut.tsv.gz", gzip.compress(b"a\tb\tc\n" * 9)[:-9], ", after line 9: damaged or cut short"),
        ("cut.tsv.bz2", bz2.compress(b"a\tb\tc\n" * 9)[:-9], ", after line 9: damaged or cut short"),
        ("cut.tsv.xz", lzma.compress(b"a\tb\tc\n" * 9)[:-9], ", after line 9: damaged or cut short"),
        ("cut.tsv.zst", COMPRESS[".zst"](b"a\tb\tc\n" * 9)[:-4], ": damaged or cut short"),
        ("cut.nt.gz", gzip.compress(TEXT[".nt"])[:-9], ": damaged or cut short"),
        ("cut.parquet.gz", gzip.compress(TEXT[".parquet"])[:-9], ": damaged or cut short"),
        ("plain.tsv.gz", b"a\tb\tc\n", ": damaged or cut short"),
        ("plain.tsv.xz", b"a\tb\tc\n", ": damaged or cut short"),
        ("plain.tsv.zst", b"a\tb\tc\n", ": damaged or cut short"),
        ("cut.parquet", TEXT[".parquet"][:-40], ": not a readable Parquet file"),
        ("empty.parquet", b"", ": not a readable Parquet file"),
        ("text.parquet", TEXT[".tsv"], ": not a readable Parquet file"),
        ("two.parquet", parquet_bytes(["a"], ["b"], names=("head", "tail")), ": 2 columns instead of 3"),
        ("real.parquet", parquet_bytes([0.5], ["b"], ["c"]), ": column 'head' holds double"),
        ("null.parquet", parquet_bytes(["a", None], ["b", "b"], ["c", "c"]), ", row 2: no head"),
        ("field.parquet", parquet_bytes(["a", "a"], ["b", ""], ["c", "c"]), ", row 2: an empty field"),
        ("break.parquet", parquet_bytes(["a"], ["b"], ["c\n"]), ", row 1: a label with a tab or a line break"),
        ("none.parquet", parquet_bytes(*[pa.array([], pa.string())] * 3), ": no triples in it"),
        (
            "twins.parquet",
            parquet_bytes(["a"], ["b"], ["c"], ["d"], names=["head", "relation", "tail", "tail"]),
            ": not",
        ),
        ("book.xlsx", b"PK", ": not a known format: use one of .tsv .txt .csv"),
        ("noname", b"a\tb\tc\n", ": not a known format"),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value[1:] and " " not in value else "",
)
def test_bad_input_is_one_line_with_file_line_and_remedy(tmp_path, name, content, message):
    assert error_of(tmp_path, name, content).startswith(message)


def test_parquet_with_bad_utf8(tmp_path):
    bad = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    assert error_of(tmp_path, "bad.parquet", parquet_bytes(bad, ["b"], ["c"])).startswith(
        ": not a readable Parquet file"
    )


@pytest.mark.parametrize(
    "name", ["gone.tsv", "gone.csv", "gone.parquet", "gone.jsonl", "gone.nt", "gone.tsv.gz", "gone.tsv.zst"]
)
def test_a_missing_file(tmp_path, name):
    with pytest.raises(DataError, match=f"{name}: no such file: check the path"):
        read_triples(tmp_path / name)


@pytest.mark.parametrize("name", ["folder.tsv", "folder.jsonl", "folder.nt"])
def test_a_folder_is_not_a_file(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match=f"{name}: a folder, not a file"):
        read_triples(tmp_path / name)


def test_a_long_label_that_is_allowed(tmp_path):
    long = "x" * LONGEST_LABEL
    assert read(tmp_path, "graph.tsv", f"{long}\tr\t{long}\n".encode()) == [(long, "r", long)]


PIECES = [
    "a",
    "b",
    "é",
    '"',
    "\t",
    "\t",
    ",",
    ",",
    "\n",
    "\n",
    "\r\n",
    "\r",
    " ",
    "\0",
    "\ufeff",
    "\u2028",
    "head",
    "tail",
    "relation",
]
CONTENTS = st.lists(
    st.sampled_from([piece.encode() for piece in PIECES] + [b"\xff", b"\xed\xa0\x80"]), max_size=40
).map(b"".join)


@given(CONTENTS, st.sampled_from(["\t", ","]), st.integers(1, 64))
@example(b"a\tb\tc\r\nd\te\tf\r\n", "\t", 6)
@example(b"tail,head,relation\n1,2,3\n", ",", 64)
def test_the_fast_reader_agrees_with_the_plain_one_or_gives_up(content, delimiter, block):
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(delimited, "_BLOCK", block):
        path = Path(folder, "graph")
        path.write_bytes(content)
        fast = delimited.fast_table(path, delimiter)
        if fast is not None:
            assert rows_of(fast) == rows_of(plain_table(path, delimiter))


LABELS = st.text(st.characters(exclude_characters='\t\r\n,"', exclude_categories=["Cs"]), min_size=1, max_size=5)


@given(
    st.lists(st.tuples(LABELS, LABELS, LABELS), min_size=1, max_size=9),
    st.sampled_from("\t,"),
    st.sampled_from(["\n", "\r\n"]),
)
def test_the_fast_reader_reads_ordinary_files(rows, delimiter, end):
    rows = [("first", "r", "t"), *rows]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "graph")
        path.write_bytes("".join(delimiter.join(row) + end for row in rows).encode())
        fast = delimited.fast_table(path, delimiter)
        assert fast is not None
        assert rows_of(fast) == rows_of(plain_table(path, delimiter)) == rows
