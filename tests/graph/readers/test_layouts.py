"""Text as people have it: other separators, headers, encodings, comments."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from capse.errors import CapseError, DataError, SettingsError
from capse.graph.readers import read_triples

ROWS = [("Zürich", "in", "Schweiz"), ("Köln", "in", "Germany")]


def read(path: Path, content: bytes, **layout: Any) -> list[tuple[str, ...]]:
    path.write_bytes(content)
    return [tuple(row.values()) for row in read_triples(path, layout).table.to_pylist()]


def text(separator: str, *first: str) -> str:
    return "".join(line + "\n" for line in [*first, *(separator.join(row) for row in ROWS)])


@pytest.mark.parametrize(
    "header",
    ["Source,Edge,Target", "subject,predicate,object", "FROM, type ,TO", "h,r,t", '"source","relationship","target"'],
)
def test_a_header_in_many_words_is_never_a_fact(tmp_path: Path, header: str) -> None:
    assert read(tmp_path / "x.csv", text(",", header).encode()) == ROWS
    assert read_triples(tmp_path / "x.csv").header


def test_a_header_may_name_more_columns_than_three(tmp_path: Path) -> None:
    assert read(tmp_path / "x.csv", b"since,Target,Source,Edge\n1990,c,a,b\n") == [("a", "b", "c")]
    with pytest.raises(DataError, match=r"x\.csv, line 3: 3 columns instead of 4"):
        read(tmp_path / "x.csv", b"since,Target,Source,Edge\n1990,c,a,b\na,b,c\n")


def test_an_ordinary_first_line_is_a_fact(tmp_path: Path) -> None:
    assert read(tmp_path / "x.csv", text(",").encode()) == ROWS
    assert not read_triples(tmp_path / "x.csv").header
    assert read(tmp_path / "y.tsv", b"lung\ttype\tsource\n") == [("lung", "type", "source")]


def test_semicolons_are_recognised_in_csv(tmp_path: Path) -> None:
    assert read(tmp_path / "x.csv", text(";").encode()) == ROWS
    assert read(tmp_path / "x.csv.gz", gzip.compress(text(";", "head;relation;tail").encode())) == ROWS


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_marked_encodings_are_recognised(tmp_path: Path, encoding: str) -> None:
    assert read(tmp_path / "x.tsv", text("\t").encode(encoding)) == ROWS
    assert read(tmp_path / "x.csv.gz", gzip.compress(text(",", "head,relation,tail").encode(encoding))) == ROWS


def test_windows_1252_is_named(tmp_path: Path) -> None:
    content = text("\t").encode("cp1252")
    with pytest.raises(DataError, match=r"line 1: not UTF-8 text: .*--encoding, e\.g\. windows-1252"):
        read(tmp_path / "x.tsv", content)
    assert read(tmp_path / "x.tsv", content, encoding="windows-1252") == ROWS
    with pytest.raises(DataError, match="line 1: not ascii text"):
        read(tmp_path / "x.tsv", content, encoding="ascii")


@pytest.mark.parametrize("separator", ["|", " ", ";", "\t"])
def test_any_character_separates(tmp_path: Path, separator: str) -> None:
    assert read(tmp_path / "x.dat", text(separator).encode(), delimiter=separator) == ROWS


def test_columns_by_number_and_by_name(tmp_path: Path) -> None:
    content = b"Company,Person,Works at,since\nacme,ann,employed by,1990\n"
    assert read(tmp_path / "x.csv", content, columns=("Person", "Works at", "Company")) == [
        ("ann", "employed by", "acme")
    ]
    assert read(tmp_path / "x.csv", b"1,b,a,c\n", columns=("3", "2", "4")) == [("a", "b", "c")]
    assert read(tmp_path / "x.csv", b"n,edge,source,target\n1,b,a,c\n", columns=("3", "2", "4")) == [("a", "b", "c")]
    with pytest.raises(DataError, match="no column 'Firm': choose from Company, Person"):
        read(tmp_path / "x.csv", content, columns=("Person", "Works at", "Firm"))
    with pytest.raises(DataError, match="line 1: 3 columns instead of 9"):
        read(tmp_path / "x.csv", b"a,b,c\n", columns=("1", "2", "9"))


def test_spaces_and_comments_are_left_out_on_request(tmp_path: Path) -> None:
    content = b"# made by hand\n a , b , c\n#d,e,f\nd,e,f\n"
    assert read(tmp_path / "x.csv", content, trim=True, comment="#") == [("a", "b", "c"), ("d", "e", "f")]
    with pytest.raises(DataError, match="line 4: 2 columns"):
        read(tmp_path / "x.csv", b"# 1\na,b,c\n# 2\na,b\n", comment="#")


@pytest.mark.parametrize(
    ("name", "layout", "message"),
    [
        ("x.csv", {"delimiter": ";;"}, "';;' cannot separate fields"),
        ("x.csv", {"columns": ("1", "2")}, "2 columns are named"),
        ("x.csv", {"encoding": "klingon"}, "no text encoding 'klingon'"),
        ("x.csv", {"encoding": "hex"}, "no text encoding 'hex'"),
        ("x.jsonl", {"trim": True}, "is not delimited text: leave out trim"),
    ],
)
def test_layouts_that_make_no_sense(tmp_path: Path, name: str, layout: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read(tmp_path / name, b"a,b,c\n", **layout)


def test_a_cut_utf16_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CapseError, match=r"x\.tsv, line \d: "):
        read(tmp_path / "x.tsv", "a\tb\tc\n".encode("utf-16")[:-1])


@pytest.mark.parametrize("encoding", ["", "a\0b", "undefined", "rot13", "no such", "unicode_escape"])
def test_encodings_that_are_none(tmp_path: Path, encoding: str) -> None:
    with pytest.raises(SettingsError, match="there is no text encoding"):
        read(tmp_path / "x.tsv", b"a\tb\tc\n", encoding=encoding)


def test_a_column_number_of_any_length(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column '1111"):
        read(tmp_path / "x.tsv", b"a\tb\tc\n", columns=("1" * 5000, "2", "3"))


def test_a_delimiter_beyond_ascii(tmp_path: Path) -> None:
    assert read(tmp_path / "x.txt", text("→").encode(), delimiter="→") == ROWS
