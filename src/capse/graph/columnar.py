"""Triples from Parquet and from JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from capse.errors import DataError
from capse.graph.files import READ_ERRORS, lines, name_parts, open_binary, read_error
from capse.graph.rows import LABEL_TYPE, SCHEMA, Source, column_order, looks_odd, table_of

_PARQUET_REMEDY = "give it text columns head, relation and tail"
_JSON_REMEDY = 'write {"head": ..., "relation": ..., "tail": ...} or [head, relation, tail] on each line'


def read_parquet(path: Path) -> Source:
    """Triples from the columns head, relation, tail (or subject, predicate, object), else from the first three."""
    try:
        content = _content(path)
        names = pq.read_schema(content).names
        if len(names) < 3:
            raise DataError(f"{path}: {len(names)} columns instead of 3", _PARQUET_REMEDY)
        chosen = [names[place] for place in column_order(names) or (0, 1, 2)]
        with pq.ParquetFile(content, read_dictionary=chosen) as file:
            groups = [
                _labels(path, file.read_row_group(number, chosen).select(chosen))
                for number in range(file.num_row_groups)
            ]
    except READ_ERRORS as error:
        raise read_error(path, error) from error
    except (pa.ArrowException, KeyError) as error:
        raise DataError(f"{path}: not a readable Parquet file of triples", _PARQUET_REMEDY) from error
    table = pa.concat_tables(groups) if groups else SCHEMA.empty_table()
    if table.num_rows == 0 or looks_odd(table):
        table = table_of(path, _parquet_rows(table), _PARQUET_REMEDY, unit="row")
    return Source(table)


def _content(path: Path) -> Any:
    if not name_parts(path)[2]:
        return str(path)
    with open_binary(path) as stream:
        return pa.BufferReader(stream.read())


def _labels(path: Path, table: pa.Table) -> pa.Table:
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not _is_label_type(column.type):
            raise DataError(f"{path}: column {name!r} holds {column.type}, not labels", _PARQUET_REMEDY)
        labels = column if column.type == LABEL_TYPE else column.cast(pa.string()).dictionary_encode()
        labels.validate(full=True)
        columns.append(labels)
    return pa.table(columns, schema=SCHEMA)


def _parquet_rows(table: pa.Table) -> Iterator[tuple[int, list[str]]]:
    number = 0
    for batch in table.to_batches():
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            number += 1
            yield number, list(row)


def _is_label_type(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_label_type(kind.value_type)
    types = pa.types
    return bool(types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind))


def read_json_lines(path: Path) -> Source:
    """One triple a line: an object with the keys head, relation, tail (or subject, predicate, object), or an array."""
    return Source(table_of(path, _json_rows(path), _JSON_REMEDY))


def _json_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in lines(path):
        if not line.strip():
            yield number, []
            continue
        try:
            content: Any = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}, line {number}: not JSON ({error})", _JSON_REMEDY) from error
        if isinstance(content, dict):
            order = column_order(list(content))
            if order is None:
                raise DataError(f"{path}, line {number}: an object without the three keys", _JSON_REMEDY)
            values = list(content.values())
            content = [values[place] for place in order]
        if not isinstance(content, list):
            raise DataError(f"{path}, line {number}: neither an object nor an array", _JSON_REMEDY)
        yield number, [_json_label(path, number, value) for value in content]


def _json_label(path: Path, number: int, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise DataError(f"{path}, line {number}: {json.dumps(value)[:40]} is not a label", _JSON_REMEDY)
    return value
