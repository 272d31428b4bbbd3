"""Delimited text: a fast reader for ordinary files, a plain one for all others.

The fast reader gives up on anything out of the ordinary (bad UTF-8, a missing field, a quoted field, a blank line, a
damaged archive). The plain reader then reads the file again from its start, and its answer stands: the triples, or an
error that names the line.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from capse.errors import DataError, SettingsError
from capse.graph.readers.files import READ_ERRORS, lines, name_parts, open_binary
from capse.graph.readers.formats import GraphFormat
from capse.graph.readers.rows import (
    COLUMNS,
    LABEL_TYPE,
    SCHEMA,
    Order,
    Row,
    Source,
    column_order,
    gathered,
    looks_odd,
    table_of,
)
from capse.graph.readers.weights import weight_place, weighted_source

_BLOCK = 16 << 20  # bytes
_OF_SOURCE_CODE = ("unicode-escape", "raw-unicode-escape")  # Python's string literals: no encoding that files have
_MOST_HELD = 1 << 30  # bytes of a file that has to be unpacked in memory
_ARROWS_NAMES = {"": None, ".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}  # of compressions; it cannot read .xz


@dataclass(frozen=True)
class Delimited(GraphFormat):
    """A triple a line: fields between tabs, where quotes have no meaning, or between other characters, where a field
    may be quoted as in RFC 4180. A first line that names the columns (see `column_order`) is a header.

    ``columns`` says where head, relation and tail stand: their numbers, from 1, or their names in the header;
    ``weight`` says it of the triples' weights, which a header may also call 'weight' or 'confidence'.
    """

    remedy = (
        "write head, relation and tail between tabs (.tsv, .txt) or commas (.csv), or name --delimiter or --columns"
    )

    delimiter: str = "\t"
    columns: tuple[str, ...] | None = None
    weight: str | None = None
    encoding: str | None = None  # UTF-8, or UTF-16 where the file begins with its mark
    trim: bool = False  # leave out spaces around fields
    comment: str | None = None  # leave out lines that begin with this

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1 or self.delimiter in '\r\n\0"':
            raise SettingsError(f"{self.delimiter!r} cannot separate fields", "give one character")
        if self.columns is not None and len(self.columns) != 3:
            raise SettingsError(f"{len(self.columns)} columns are named", "name those of head, relation and tail")
        try:
            " ".encode("utf-8" if self.encoding is None else self.encoding or "?")
            if codecs.lookup(self.encoding or "utf-8").name in _OF_SOURCE_CODE:
                raise LookupError
        except (LookupError, ValueError) as error:  # unknown; not a name, or of no use
            raise SettingsError(f"there is no text encoding {self.encoding!r}", "try utf-8 or windows-1252") from error

    def rows(self, path: Path) -> Iterator[Row]:
        return self._for(path)._rows(path)

    def read(self, path: Path) -> Source:
        return self._for(path)._read(path)

    def _for(self, path: Path) -> Delimited:
        """The same, but with semicolons where a file of commas has none of these and two of those in its first line."""
        if self.delimiter != ",":
            return self
        first = next((line for _, line in lines(path, self.encoding)), "")
        return replace(self, delimiter=";") if "," not in first and first.count(";") > 1 else self

    def _read(self, path: Path) -> Source:
        header, _ = self._layout(path)
        weight = weight_place(header, self.weight)
        if weight is not None:
            return weighted_source(path, self._rows(path, weight), self.remedy, self.unit, header)
        plain = (self.columns, self.encoding, self.trim, self.comment) != (None, None, False, None)
        table = None if plain or not self.delimiter.isascii() else fast_table(path, self.delimiter)
        table = table_of(path, self._rows(path), self.remedy) if table is None else table
        return Source(table, header=header, unnamed=not header and self.columns is None)

    def _rows(self, path: Path, weight: int | None = None) -> Iterator[Row]:
        """Head, relation and tail of each line, and where asked for its weight."""
        header, order = self._layout(path)
        if weight is not None:
            order = order or (0, 1, 2)
        records = self._records(path)
        if header:
            next(records)
        for number, fields in records:
            if order is None or fields in ([], [""]):
                yield number, fields
                continue
            width = len(header) or max(place + 1 for place in (*order, weight) if place is not None)
            if len(fields) < width or (header and len(fields) != width):
                count = f"{len(fields)} column{'s' * (len(fields) > 1)}"
                raise DataError(f"{path}, line {number}: {count} instead of {width}", self.remedy)
            triple: list[object] = [None if place is None else fields[place] for place in order]
            yield number, triple if weight is None else [*triple, fields[weight]]

    def _layout(self, path: Path) -> tuple[Sequence[str], Order | None]:
        """The header, if the file has one; and where head, relation and tail stand, if it or ``columns`` say so."""
        first = next((fields for _, fields in self._records(path)), [])
        if self.columns is None:
            order = column_order(first)
            return (first, order) if order else ((), None)
        if all(re.fullmatch("[1-9][0-9]{,8}", name) for name in self.columns):
            head, relation, tail = (int(name) - 1 for name in self.columns)
            chosen = [first[place] for place in (head, relation, tail) if place < len(first)]
            return first if None not in (column_order(chosen) or [None]) else (), (head, relation, tail)
        missing = [name for name in self.columns if name not in first]
        if missing:
            raise DataError(f"{path}, line 1: no column {missing[0]!r}", f"choose from {', '.join(first)}")
        head, relation, tail = map(first.index, self.columns)
        return first, (head, relation, tail)

    def _records(self, path: Path) -> Iterator[tuple[int, list[str]]]:
        number = 0

        def texts() -> Iterator[str]:
            nonlocal number
            for number, line in lines(path, self.encoding):  # noqa: B007  the number of the last line that was read
                if self.comment is None or not line.startswith(self.comment):
                    yield line

        if self.delimiter == "\t":
            records: Iterator[list[str]] = (line.rstrip("\r\n").split("\t") for line in texts())
        else:
            records = csv.reader(texts(), delimiter=self.delimiter, strict=True)
        try:
            for fields in records:
                yield number, [field.strip() for field in fields] if self.trim else fields
        except csv.Error as error:
            raise DataError(f"{path}, line {number}: {error}", self.remedy) from error


TSV = Delimited("\t")
CSV = Delimited(",")


def fast_table(path: Path, delimiter: str) -> pa.Table | None:
    """The table of an ordinary file; None if there is anything odd about it."""
    try:
        with _native_stream(path) as stream, _open_blocks(stream, delimiter) as blocks:
            table = gathered(_checked(blocks, delimiter))
    except (_OddError, pa.ArrowException, *READ_ERRORS):
        return None
    return table if table.num_rows else None


def _checked(blocks: Iterable[pa.RecordBatch], delimiter: str) -> Iterator[pa.RecordBatch]:
    """Blocks with the columns in order and without a header; raises _OddError where the fast reader gives up."""
    order: Order | None = None
    for number, block in enumerate(block for block in blocks if block.num_rows):
        if looks_odd(block) or (delimiter != "\t" and _has_quotes(block)):
            raise _OddError
        if number == 0 and (order := column_order([str(column[0]) for column in block.columns])):
            block = block.slice(1)
        if order is not None:
            chosen = [COLUMNS[place] for place in order if place is not None]
            if len(chosen) < 3:
                raise _OddError
            block = pa.RecordBatch.from_arrays(block.select(chosen).columns, schema=SCHEMA)
        yield block


class _OddError(Exception):
    """There is something odd about a file."""


def _native_stream(path: Path) -> pa.NativeFile:
    """The bytes of a plain or compressed file, read without Python.

    Arrow reads ahead in threads of its own. Had they to call a Python stream while the interpreter ends, as it does
    after an error in the first lines, they would abort the process.
    """
    suffix = name_parts(path)[2]
    if suffix not in _ARROWS_NAMES:
        with open_binary(path) as stream:
            content = stream.read(_MOST_HELD + 1)
        if len(content) > _MOST_HELD:
            raise _OddError
        return pa.BufferReader(content)
    return pa.input_stream(str(path), compression=_ARROWS_NAMES[suffix])


def _open_blocks(stream: object, delimiter: str) -> pacsv.CSVStreamingReader:
    return pacsv.open_csv(
        stream,
        read_options=pacsv.ReadOptions(column_names=list(COLUMNS), block_size=_BLOCK),
        parse_options=pacsv.ParseOptions(
            delimiter=delimiter, quote_char=False, double_quote=False, ignore_empty_lines=False
        ),
        convert_options=pacsv.ConvertOptions(column_types=dict.fromkeys(COLUMNS, LABEL_TYPE)),
    )


def _has_quotes(block: pa.RecordBatch) -> bool:
    return any(pc.any(pc.match_substring(column.dictionary, '"')).as_py() for column in block.columns)
