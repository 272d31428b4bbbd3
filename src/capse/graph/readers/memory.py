"""Triples that are in memory already: arrays, data frames, Arrow tables, or anything that yields triples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from capse.arrays import Int64s
from capse.errors import DataError
from capse.graph.readers.columnar import is_label_type, label_table
from capse.graph.readers.rows import Row, Source, checked_labels, column_order, fields_of, looks_odd, table_of
from capse.graph.readers.weights import weight_place, weighted_source

_REMEDY = "give a head, a relation and a tail for each triple"


def read_objects(where: str, triples: Any, required: bool = True) -> Source:
    """Labelled triples from an array (n, 3), a data frame, an Arrow table or an iterable of triples.

    A data frame's and a table's columns are found by their names (see `column_order`), else the first three count.
    Whole numbers become labels. ``where`` is what errors call the triples; ``required`` are some at least.

    >>> read_objects("train", np.array([["be", "borders", "nl"]])).table.to_pylist()
    [{'head': 'be', 'relation': 'borders', 'tail': 'nl'}]
    """
    columns = _columns(where, triples)
    weights = weight_column(triples)
    if columns is not None and weights is not None:
        rows = ((n, [*fields, w]) for (n, fields), w in zip(_rows(where, triples, columns), weights, strict=True))
        return weighted_source(where, rows, _REMEDY, "triple", required=required)
    table = None if columns is None else _fast_table(columns)
    if table is None:
        table = table_of(where, _rows(where, triples, columns), _REMEDY, unit="triple", required=required)
    return Source(table)


def labelled_rows(where: str, triples: Any) -> Iterator[list[str]]:
    """The same triples one by one."""
    for number, fields in _rows(where, triples, _columns(where, triples)):
        yield checked_labels(f"{where}, triple {number}", fields, _REMEDY)


def read_ids(where: str, triples: Any, entities: int, relations: int) -> Int64s:
    """Triples of ids (n, 3), each below the number of entities or of relations."""
    columns = _columns(where, triples)
    rows = [] if columns is not None else [fields for _, fields in _rows(where, triples, None)]
    try:
        ids = np.stack([np.asarray(column) for column in columns], axis=1) if columns is not None else np.array(rows)
    except ValueError:  # rows of different lengths
        ids = np.empty(0)
    if not ids.size and not rows:
        return np.empty((0, 3), np.int64)
    if ids.ndim != 2 or ids.shape[1] != 3 or not np.issubdtype(ids.dtype, np.integer):
        raise DataError(f"{where}: not three whole numbers each", "give ids, or leave out entities and relations")
    wrong = np.flatnonzero(((ids < 0) | (ids >= [entities, relations, entities])).any(axis=1))
    if len(wrong):
        row = wrong[0]
        raise DataError(
            f"{where}, triple {row + 1}: {ids[row].tolist()} is not within {entities:,} entities and "
            f"{relations:,} relations",
            "count ids from 0",
        )
    return ids.astype(np.int64)


def _columns(where: str, triples: Any) -> list[Any] | None:
    """The columns of what has any."""
    if isinstance(triples, pa.Table | pa.RecordBatch):
        names, columns = triples.schema.names, triples.columns
    elif hasattr(triples, "columns") and hasattr(triples, "__getitem__"):  # a data frame of pandas, Polars, ...
        names = [str(name) for name in triples.columns]
        columns = [triples.iloc[:, i] if hasattr(triples, "iloc") else triples[name] for i, name in enumerate(names)]
    elif hasattr(triples, "__array__"):
        array = np.asarray(triples)
        if array.ndim != 2:
            shape = "(" + ", ".join(map(str, array.shape)) + ")"
            raise DataError(f"{where}: an array of shape {shape} instead of (n, 3)", _REMEDY)
        names, columns = [], list(array.T)
        if len(columns) != 3:
            raise DataError(f"{where}: {len(columns)} columns instead of 3", _REMEDY)
    else:
        return None
    order = column_order(names)
    if order is None or None in order:
        order = (0, 1, 2)
    if len(columns) < 3:
        raise DataError(f"{where}: {len(columns)} column{'s' * (len(columns) != 1)} instead of 3", _REMEDY)
    return [columns[place] for place in order if place is not None]


def weight_column(triples: Any) -> Any:
    """The column of weights of a table or a data frame, by its name; None if it has none."""
    if isinstance(triples, pa.Table | pa.RecordBatch):
        place = weight_place(triples.schema.names)
        return None if place is None else triples.column(place).to_pylist()
    if hasattr(triples, "columns") and hasattr(triples, "__getitem__"):
        names = list(triples.columns)
        place = weight_place([str(name) for name in names])
        return None if place is None else list(triples[names[place]])
    return None


def _fast_table(columns: Sequence[Any]) -> pa.Table | None:
    """The table of ordinary columns; None if there is anything odd about them."""
    try:
        arrays = [
            column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column, from_pandas=True)
            for column in columns
        ]
        if not all(is_label_type(array.type) for array in arrays):
            return None
        table = label_table(arrays)
    except (pa.ArrowException, TypeError, ValueError):
        return None
    return None if table.num_rows == 0 or looks_odd(table) else table


def _rows(where: str, triples: Any, columns: Sequence[Any] | None) -> Iterator[Row]:
    if columns is not None:
        plain = (c.to_pylist() if isinstance(c, pa.Array | pa.ChunkedArray) else c for c in columns)
        yield from enumerate(zip(*plain, strict=True), start=1)
        return
    if isinstance(triples, str | bytes | Path) or not isinstance(triples, Iterable):
        raise DataError(f"{where}: {str(triples)[:40]!r} is not a collection of triples", _REMEDY)
    for number, row in enumerate(triples, start=1):
        fields = fields_of(row)
        if fields is None:
            raise DataError(f"{where}, triple {number}: {str(row)[:40]!r} is not a triple", _REMEDY)
        yield number, fields
