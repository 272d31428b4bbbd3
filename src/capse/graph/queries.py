"""Queries, which are triples with a hole: (head, relation, ?) and (?, relation, tail)."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from capse.errors import CapseError, DataError
from capse.graph.dataset import Graph
from capse.graph.files import READ_ERRORS, lines, name_parts, open_binary, read_error
from capse.graph.rows import COLUMNS

FREE = -1  # stands where an entity is asked for

Queries = npt.NDArray[np.int32]  # (n, 3): head, relation, tail, with FREE for the head or for the tail
Row = tuple[int, Mapping[str, Any]]  # a line's number and its fields by column

_JSON_REMEDY = 'write {"head": ..., "relation": ...} or {"relation": ..., "tail": ...} on each line'
_REMEDY = "give columns head, relation and tail, and leave either the head or the tail empty"


def encode_query(graph: Graph, head: str | None, relation: str, tail: str | None) -> tuple[int, int, int]:
    """The ids of a query given by labels or names.

    >>> graph = Graph.from_triples([("berlin", "capital_of", "germany")])
    >>> encode_query(graph, "berlin", "capital_of", None)
    (0, 0, -1)
    """
    relation_id = graph.relations.id(relation)
    head_id, tail_id = (FREE if text is None else graph.entities.id(text) for text in (head, tail))
    return head_id, relation_id, tail_id


def read_queries(path: Path, graph: Graph) -> Queries:
    """The queries of a file: tsv, txt, csv, parquet, jsonl or ndjson, text perhaps compressed, as its suffix says.

    The columns are head, relation and tail; in each row either the head or the tail is empty (or null, or its column
    is not there), and that is what the row asks for. In tsv and csv a header that names the columns may come first;
    without one they are three, in this order. Labels or names will do. A row that is no query is an error.
    """
    reader = _READERS.get(name_parts(path)[1])
    if reader is None:
        raise DataError(f"{path}: not a known format", f"use one of {' '.join(_READERS)}")
    unit = "row" if reader is _parquet_rows else "line"
    ids = (_encode(f"{path}, {unit} {number}", fields, graph) for number, fields in reader(path))
    queries: Queries = np.fromiter(ids, np.dtype((np.int32, 3)))
    if not len(queries):
        raise DataError(f"{path}: no queries in it", _REMEDY)
    return queries


def _encode(where: str, fields: Mapping[str, Any], graph: Graph) -> tuple[int, int, int]:
    head, relation, tail = (_label(where, fields.get(column)) for column in COLUMNS)
    if relation is None:
        raise DataError(f"{where}: no relation", _REMEDY)
    if (head is None) == (tail is None):
        raise DataError(f"{where}: {'neither head nor tail' if head is None else 'both head and tail'}", _REMEDY)
    try:
        return encode_query(graph, head, relation, tail)
    except CapseError as error:
        raise DataError(f"{where}: {error.message}", error.remedy) from error


def _label(where: str, value: object) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return str(value)
    raise DataError(f"{where}: {str(value)[:40]} is not a label", _REMEDY)


def _tsv_rows(path: Path) -> Iterator[Row]:
    return _by_column(path, ((number, line.rstrip("\r\n").split("\t")) for number, line in lines(path)))


def _csv_rows(path: Path) -> Iterator[Row]:
    reader = csv.reader((line for _, line in lines(path)), strict=True)
    try:
        yield from _by_column(path, ((reader.line_num, fields) for fields in reader))
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}", _REMEDY) from error


def _by_column(path: Path, rows: Iterator[tuple[int, list[str]]]) -> Iterator[Row]:
    columns = list(COLUMNS)
    for place, (number, fields) in enumerate(rows):
        names = [field.lower() for field in fields] if place == 0 else []
        if "relation" in names and ("head" in names or "tail" in names):
            columns = names
            continue
        if len(fields) != len(columns):
            count = f"{len(fields)} column{'s' * (len(fields) > 1)}"
            raise DataError(f"{path}, line {number}: {count} instead of {len(columns)}", _REMEDY)
        yield number, dict(zip(columns, fields, strict=True))


def _json_rows(path: Path) -> Iterator[Row]:
    for number, line in lines(path):
        try:
            content = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}, line {number}: not JSON ({error})", _JSON_REMEDY) from error
        if not isinstance(content, dict):
            raise DataError(f"{path}, line {number}: not an object", _JSON_REMEDY)
        yield number, content


def _parquet_rows(path: Path) -> Iterator[Row]:
    number = 0
    try:
        with open_binary(path) as stream, pq.ParquetFile(stream) as file:
            columns = [column for column in COLUMNS if column in file.schema_arrow.names]
            for batch in file.iter_batches(columns=columns):
                for fields in batch.to_pylist():
                    number += 1
                    yield number, fields
    except READ_ERRORS as error:
        raise read_error(path, error) from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a readable Parquet file", _REMEDY) from error


_READERS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".tsv": _tsv_rows,
    ".txt": _tsv_rows,
    ".csv": _csv_rows,
    ".parquet": _parquet_rows,
    ".jsonl": _json_rows,
    ".ndjson": _json_rows,
}
