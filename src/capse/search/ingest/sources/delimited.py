"""CSV and TSV logs with a header: one row per result (see ``columns``)."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from capse.errors import DataError
from capse.search.ingest.sources.columns import Columns, Rows
from capse.search.ingest.sources.files import native_stream, open_stream, reading, with_suffix
from capse.search.ingest.staging import Staging

_SUFFIXES = (".csv", ".tsv")
_LONGEST_HEADER = 1 << 16
_BLOCK = 1 << 24  # bytes read at once


def suits(paths: Sequence[Path]) -> bool:
    """Whether a file's header is that of a log."""
    try:
        return any(Columns.of(_header(path)[0]).is_log() for path in with_suffix(paths, _SUFFIXES))
    except DataError:
        return False


def stage(paths: Sequence[Path], staging: Staging) -> None:
    """Bring all files into the staged form; every row that cannot be read is rejected."""
    for path in with_suffix(paths, _SUFFIXES):
        names, delimiter = _header(path)
        columns = Columns.of(names)
        columns.check(path)
        broken: list[int] = []  # numbers of rows with too few or too many fields, ascending

        def reject(row: Any, path: Path = path, broken: list[int] = broken) -> str:
            broken.append(row.number)
            staging.reject(
                path.name, row.number, f"{row.actual_columns} fields instead of {row.expected_columns}", row.text
            )
            return "skip"

        options = {
            "read_options": pacsv.ReadOptions(use_threads=False, block_size=_BLOCK),  # threads lose the rows' numbers
            "parse_options": pacsv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, invalid_row_handler=reject
            ),
            "convert_options": pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.binary())),
        }
        with reading(path), native_stream(path) as stream, pacsv.open_csv(stream, **options) as batches:
            done = 0
            for batch in batches:
                start = done

                def number_of(place: int, start: int = start, broken: list[int] = broken) -> int:
                    return _row_number(start + place, broken)

                Rows(path, columns, pa.Table.from_batches([batch]), number_of, staging).stage()
                done += len(batch)


def _header(path: Path) -> tuple[list[str], str]:
    """The names of the columns, and the delimiter: a tab, a semicolon or a comma."""
    with reading(path), open_stream(path) as stream:
        text = stream.read(_LONGEST_HEADER).decode("utf-8-sig", "replace")
    first = text.splitlines()[0] if text else ""
    delimiter = next((character for character in "\t;" if character in first), ",")
    return next(csv.reader([first], delimiter=delimiter), []), delimiter


def _row_number(place: int, broken: Sequence[int]) -> int:
    """The number in the file of the row at this place among the unbroken ones; the header is row 1.

    >>> [_row_number(place, [3, 4]) for place in range(3)]
    [2, 5, 6]
    """
    number = place + 2
    for gap in broken:
        if gap > number:
            break
        number += 1
    return number
