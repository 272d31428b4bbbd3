"""Triples from Parquet and from JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from capse.errors import DataError
from capse.graph.readers.files import READ_ERRORS, lines, name_parts, open_binary, read_error
from capse.graph.readers.formats import GraphFormat
from capse.graph.readers.rows import LABEL_TYPE, SCHEMA, Row, Source, column_order, fields_of, looks_odd, table_of
from capse.graph.readers.weights import weight_place, weighted_source
from capse.runs.memory import check_memory


@dataclass(frozen=True)
class Parquet(GraphFormat):
    """The columns head, relation, tail (see `column_order`), else the first three; and perhaps one of weights."""

    weight: str | None = None

    unit = "row"
    remedy = "give it text columns head, relation and tail"

    def rows(self, path: Path) -> Iterator[Row]:
        with self._errors_of(path), open_binary(path) as stream, _parquet(stream) as file:
            names = file.schema_arrow.names
            order = column_order(names) or _first_three(path, names, self.remedy)
            chosen = [None if place is None else names[place] for place in order]
            batches = file.iter_batches(columns=[name for name in chosen if name is not None])
            yield from enumerate(([row.get(name) for name in chosen] for b in batches for row in b.to_pylist()), 1)

    def read(self, path: Path) -> Source:
        with self._errors_of(path):
            content = _content(path)
            names = pq.read_schema(content).names
            order = column_order(names)
            weight = weight_place(names, self.weight)
            if weight is not None and weight >= len(names):
                raise DataError(f"{path}: no column {self.weight} for weights", f"choose from {', '.join(names)}")
            if order is None or None in order:
                order = _first_three(path, names, self.remedy)
            chosen = [names[place] for place in order if place is not None]
            with _parquet(content, read_dictionary=chosen) as file:
                rows = file.metadata.num_rows  # which may be far more than the file's size says
                check_memory(f"{path}: reading {rows:,} rows", 12 * rows, "use a larger machine, or a part of the file")
                groups = [
                    self._labels(path, file.read_row_group(number, chosen).select(chosen))
                    for number in range(file.num_row_groups)
                ]
                weights = None if weight is None else file.read([names[weight]]).column(0).to_pylist()
        table = pa.concat_tables(groups) if groups else SCHEMA.empty_table()
        if weights is not None:
            rows = ((n, [*triple, value]) for (n, triple), value in zip(table_rows(table), weights, strict=True))
            return weighted_source(path, rows, self.remedy, self.unit)
        if table.num_rows == 0 or looks_odd(table):
            table = table_of(path, table_rows(table), self.remedy, self.unit)
        return Source(table)

    def _labels(self, path: Path, table: pa.Table) -> pa.Table:
        for name, column in zip(table.column_names, table.columns, strict=True):
            if not is_label_type(column.type):
                raise DataError(f"{path}: column {name!r} holds {column.type}, not labels", self.remedy)
        return label_table(table.columns)

    @contextmanager
    def _errors_of(self, path: Path) -> Iterator[None]:
        try:
            yield
        except READ_ERRORS as error:
            raise read_error(path, error) from error
        except (pa.ArrowException, KeyError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: not a readable Parquet file of triples", self.remedy) from error


def label_table(columns: Iterable[Any]) -> pa.Table:
    """A table of SCHEMA from three columns of text or whole numbers; its labels are not checked yet."""
    table = []
    for column in columns:
        labels = column if column.type == LABEL_TYPE else column.cast(pa.string()).dictionary_encode()
        labels.validate(full=True)
        table.append(labels)
    return pa.table(table, schema=SCHEMA)


def table_rows(table: pa.Table) -> Iterator[Row]:
    """The rows of a table, numbered from 1."""
    rows = (row for batch in table.to_batches() for row in zip(*(c.to_pylist() for c in batch.columns), strict=True))
    yield from enumerate(rows, start=1)


def is_label_type(kind: pa.DataType) -> bool:
    """Whether a column of this type holds labels: text, or whole numbers."""
    if pa.types.is_dictionary(kind):
        return is_label_type(kind.value_type)
    types = pa.types
    return bool(types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind))


def _parquet(content: Any, **options: Any) -> pq.ParquetFile:
    """A file whose pages are compared with their checksums, where it has any."""
    return pq.ParquetFile(content, page_checksum_verification=True, **options)


def _content(path: Path) -> Any:
    if not name_parts(path)[2]:
        return str(path)
    with open_binary(path) as stream:
        return pa.BufferReader(stream.read())


def _first_three(path: Path, names: list[str], remedy: str) -> tuple[int, int, int]:
    if len(names) < 3:
        raise DataError(f"{path}: {len(names)} columns instead of 3", remedy)
    return 0, 1, 2


@dataclass(frozen=True)
class JsonLines(GraphFormat):
    """One triple a line: an object with the keys head, relation, tail (see `column_order`), or an array.

    Where the first line has a weight, under the key weight or confidence or as ``weight`` says, every line must.
    """

    weight: str | None = None

    remedy = 'write {"head": ..., "relation": ..., "tail": ...} or [head, relation, tail] on each line'

    def rows(self, path: Path) -> Iterator[Row]:
        for number, content in self._contents(path):
            fields = [] if content is None else fields_of(content)
            if fields is None:
                raise DataError(
                    f"{path}, line {number}: {json.dumps(content, ensure_ascii=False)[:40]} is not a triple",
                    self.remedy,
                )
            yield number, fields

    def read(self, path: Path) -> Source:
        first = next((content for _, content in self._contents(path)), None)
        if self._weight(first) is None:
            return super().read(path)
        return weighted_source(path, self._weighted(path), self.remedy, self.unit)

    def _weighted(self, path: Path) -> Iterator[Row]:
        contents = self._contents(path)
        for (number, fields), (_, content) in zip(self.rows(path), contents, strict=True):
            place = self._weight(content)
            values = list(content.values()) if isinstance(content, Mapping) else content or []
            triple = [*fields, None, None, None][:3] if isinstance(content, Mapping) else fields[:3]
            yield number, [*triple, values[place] if place is not None and place < len(values) else None]

    def _weight(self, content: Any) -> int | None:
        names = list(content) if isinstance(content, Mapping) else []
        return weight_place(names, self.weight) if names or self.weight else None

    def _contents(self, path: Path) -> Iterator[tuple[int, Any]]:
        for number, line in lines(path):
            if not line.strip():
                yield number, None
                continue
            try:
                content: Any = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}, line {number}: not JSON ({error})", self.remedy) from error
            yield number, content


PARQUET = Parquet()
JSON_LINES = JsonLines()
