"""Tab- and comma-separated triples: a fast reader for ordinary files, a plain one for all others.

The fast reader gives up on anything out of the ordinary (bad UTF-8, a missing field, a quoted field, a blank line, a
damaged archive). The plain reader then reads the file again from its start, and its answer stands: the triples, or an
error that names the line.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from capse.errors import DataError
from capse.graph.files import READ_ERRORS, lines, name_parts, open_binary
from capse.graph.rows import COLUMNS, LABEL_TYPE, Source, column_order, looks_odd, table_of

_BLOCK = 16 << 20  # bytes
_ARROWS_NAMES = {"": None, ".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}  # of compressions; it cannot read .xz
_SEPARATOR_NAMES = {"\t": "tabs", ",": "commas"}


def read_tsv(path: Path) -> Source:
    """Triples separated by tabs; quotes have no meaning."""
    return _read(path, "\t")


def read_csv(path: Path) -> Source:
    """Triples separated by commas; a field may be quoted as in RFC 4180."""
    return _read(path, ",")


def _read(path: Path, delimiter: str) -> Source:
    table = fast_table(path, delimiter)
    return Source(plain_table(path, delimiter) if table is None else table)


def fast_table(path: Path, delimiter: str) -> pa.Table | None:
    """The table of an ordinary file; None if there is anything odd about it."""
    try:
        with _native_stream(path) as stream, _open_blocks(stream, delimiter) as blocks:
            batches = []
            for block in blocks:
                if looks_odd(block) or (delimiter == "," and _has_quotes(block)):
                    return None
                if block.num_rows:
                    batches.append(block)
    except (pa.ArrowException, *READ_ERRORS):
        return None
    if not batches:
        return None
    order = column_order([str(column[0]) for column in batches[0].columns])
    table = pa.Table.from_batches(batches)
    if order is not None:
        table = table.slice(1).select([COLUMNS[place] for place in order]).rename_columns(list(COLUMNS))
    return table if table.num_rows else None


def plain_table(path: Path, delimiter: str) -> pa.Table:
    """The table of any file that has one, or a DataError."""
    remedy = f"write head, relation and tail, separated by {_SEPARATOR_NAMES[delimiter]}"
    rows = _quoted_rows(path, remedy) if delimiter == "," else _tabbed_rows(path)
    return table_of(path, _without_header(rows), remedy)


def _native_stream(path: Path) -> pa.NativeFile:
    """The bytes of a plain or compressed file, read without Python.

    Arrow reads ahead in threads of its own. Had they to call a Python stream while the interpreter ends, as it does
    after an error in the first lines, they would abort the process.
    """
    suffix = name_parts(path)[2]
    if suffix not in _ARROWS_NAMES:
        with open_binary(path) as stream:
            return pa.BufferReader(stream.read())
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


def _tabbed_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in lines(path):
        yield number, line.rstrip("\r\n").split("\t")


def _quoted_rows(path: Path, remedy: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((line for _, line in lines(path)), strict=True)
    try:
        for fields in reader:
            yield reader.line_num, fields
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}", remedy) from error


def _without_header(rows: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, Sequence[str]]]:
    order = None
    for place, (number, fields) in enumerate(rows):
        if place == 0 and len(fields) == 3 and (order := column_order(fields)):
            continue
        yield number, [fields[column] for column in order] if order and len(fields) == 3 else fields
