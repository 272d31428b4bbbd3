"""Values of fields in columns: numbers, and sets of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from capse.arrays import Float64s, Int64s
from capse.search.logs.field_schema import SETS, FieldType, Value


@dataclass(frozen=True)
class TextSets:
    """Sets of texts, one for each of n rows; that of row i is ``codes[starts[i]:starts[i + 1]]``, in order."""

    starts: Int64s  # (n + 1,)
    codes: Int64s  # (z,) places in the labels
    labels: Sequence[str]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of(cls, rows: Sequence[Sequence[str]]) -> TextSets:
        """From the texts of each row.

        >>> TextSets.of([("b",), (), ("a", "b")])
        TextSets(starts=array([0, 1, 1, 3]), codes=array([0, 1, 0]), labels=['b', 'a'])
        """
        numbers: dict[str, int] = {}
        codes = [numbers.setdefault(text, len(numbers)) for row in rows for text in row]
        ends = np.cumsum([0, *map(len, rows)])
        return cls(ends.astype(np.int64), np.array(codes, np.int64), list(numbers))

    @cached_property
    def lengths(self) -> Int64s:
        return np.diff(self.starts)

    @cached_property
    def owner(self) -> Int64s:
        """(z,) the row of each text."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def texts(self) -> list[str]:
        """(z,)"""
        return [self.labels[code] for code in self.codes.tolist()]

    def rows(self) -> list[tuple[str, ...]]:
        """(n,) what `of` takes."""
        texts, starts = self.texts, self.starts.tolist()
        return [tuple(texts[start:end]) for start, end in pairwise(starts)]

    def take(self, rows: Int64s) -> TextSets:
        """Some rows, in this order."""
        lengths = self.lengths[rows]
        ends = np.cumsum(lengths)
        places = np.repeat(self.starts[rows] - ends + lengths, lengths) + np.arange(int(lengths.sum()))
        return TextSets(np.concatenate([[0], ends]).astype(np.int64), self.codes[places], self.labels)

    def has(self, text: str) -> Float64s:
        """(n,) 1 where a row has a text, 0 where it has others, NaN where it has none."""
        found = np.zeros(len(self))
        if text in self.labels:
            found[self.owner[self.codes == list(self.labels).index(text)]] = 1.0
        return np.where(self.lengths > 0, found, np.nan)

    def total(self, values: Float64s | Int64s) -> Float64s:
        """(n,) the sum of values (z,) over the texts of each row."""
        return np.bincount(self.owner, values, len(self)).astype(np.float64)

    def mean(self, values: Float64s) -> Float64s:
        """(n,) of values (z,) over the texts of each row; NaN where it has none."""
        return np.asarray(self.total(values) / np.where(self.lengths > 0, self.lengths, np.nan), np.float64)

    def frequent(self, most: int) -> tuple[str, ...]:
        """The most frequent texts, the most frequent first; of those that are equally so the first by the alphabet."""
        counts = np.bincount(self.codes, minlength=len(self.labels)).tolist()
        order = sorted(zip(self.labels, counts, strict=True), key=lambda one: (-one[1], one[0]))
        return tuple(label for label, count in order[:most] if count)

    def shared(self, other: TextSets) -> Float64s:
        """(n,) the share of each row's texts that the same row of others has; NaN where either has none."""
        places = {label: place for place, label in enumerate(other.labels)}
        same = np.array([places.get(label, -1) for label in self.labels], np.int64)
        span = len(other.labels) + 1
        there = np.unique(other.owner * span + other.codes)
        here = self.owner * span + same[self.codes] if len(self.codes) else self.codes
        found = np.isin(here, there) & (same[self.codes] >= 0) if len(self.codes) else np.zeros(0, bool)
        known = (self.lengths > 0) & (other.lengths > 0)
        return np.where(known, self.total(found.astype(np.float64)) / np.maximum(self.lengths, 1), np.nan)


Column = Float64s | TextSets


def taken(columns: Mapping[str, Column], rows: Int64s) -> dict[str, Column]:
    """Some rows of each column."""
    return {name: rows_of(one, rows) for name, one in columns.items()}


def rows_of(column: Column, rows: Int64s) -> Column:
    """Some rows of one."""
    return column.take(rows) if isinstance(column, TextSets) else column[rows]


def columns_of(types: Mapping[str, FieldType], rows: Sequence[Mapping[str, Value]]) -> dict[str, Column]:
    """Columns from what `FieldSchema.read` gives for each row."""
    found: dict[str, Column] = {}
    for name, kind in types.items():
        if kind in SETS:
            found[name] = TextSets.of([row.get(name, ()) for row in rows])  # type: ignore[misc] # texts, by its type
        else:
            found[name] = np.array([row.get(name, np.nan) for row in rows], np.float64)
    return found


def to_arrow(columns: Mapping[str, Column]) -> dict[str, pa.Array]:
    """Columns as Parquet keeps them."""
    return {
        name: pa.array(one.rows(), pa.list_(pa.string()))
        if isinstance(one, TextSets)
        else pa.array(one, from_pandas=True)
        for name, one in columns.items()
    }


def from_arrow(types: Mapping[str, FieldType], table: pa.Table, rows: pa.Array | None = None) -> dict[str, Column]:
    """What `to_arrow` gave; with ``rows`` these, of which null ones have no value."""
    found: dict[str, Column] = {}
    for name, kind in types.items():
        column = table[name].combine_chunks()
        column = column if rows is None else column.take(rows)
        if kind in SETS:
            texts = pc.list_flatten(column)
            coded = pc.dictionary_encode(texts)
            lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
            starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
            found[name] = TextSets(starts, coded.indices.to_numpy().astype(np.int64), coded.dictionary.to_pylist())
        else:
            found[name] = column.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False).astype(np.float64)
    return found
