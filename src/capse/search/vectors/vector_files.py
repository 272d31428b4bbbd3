"""Vectors in files: Parquet with the columns ``label`` and ``vector``, or text lines ``label v1 .. vk`` (.gz too)."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from capse.arrays import Bools, Float32s
from capse.errors import DataError
from capse.runs.atomic import atomic_path

_SCHEMA = pa.schema([("label", pa.string()), ("vector", pa.list_(pa.float32()))])
_REMEDY = "give Parquet with the columns label and vector, or lines of a label and its numbers, separated by spaces"


@dataclass(frozen=True)
class VectorTable:
    """Vectors with a label each."""

    labels: Sequence[str]
    rows: Float32s  # (n, k)

    @property
    def width(self) -> int:
        return int(self.rows.shape[1])

    @cached_property
    def index(self) -> dict[str, int]:
        return {label: number for number, label in enumerate(self.labels)}

    def get(self, label: str) -> Float32s | None:
        row = self.index.get(label)
        return None if row is None else self.rows[row]

    def of(self, labels: Sequence[str]) -> tuple[Float32s, Bools]:
        """The vectors of these labels, zeros for those that are missing, and which ones are there."""
        places = np.array([self.index.get(label, -1) for label in labels], np.int64)
        there = places >= 0
        rows = np.zeros((len(labels), self.width), np.float32)
        rows[there] = self.rows[places[there]]
        return rows, there


def write_vectors(path: Path, table: VectorTable) -> None:
    """Write a table as Parquet that ``read_vectors`` reads."""
    ends = np.arange(len(table.rows) + 1, dtype=np.int64) * table.width
    vectors = pa.LargeListArray.from_arrays(pa.array(ends), pa.array(table.rows.ravel())).cast(_SCHEMA.field(1).type)
    with atomic_path(path) as temporary:
        pq.write_table(pa.table([pa.array(table.labels, pa.string()), vectors], schema=_SCHEMA), temporary)


def read_vectors(path: str | Path) -> VectorTable:
    """The vectors of a file, which must be of one length, finite, and have labels that differ."""
    path = Path(path)
    table = _read_parquet(path) if path.suffix == ".parquet" else _read_lines(path)
    if not table.rows.size:
        raise DataError(f"{path} holds no vectors", _REMEDY)
    if len(table.index) < len(table.labels):
        twice = next(label for number, label in enumerate(table.labels) if table.index[label] != number)
        raise DataError(f"{path} has two vectors of {twice!r}", "keep one of them")
    finite = np.isfinite(table.rows).all(axis=1)
    if not finite.all():
        raise DataError(
            f"{path}: the vector of {table.labels[int(finite.argmin())]!r} has NaN or infinity", "remove it"
        )
    return table


def _read_parquet(path: Path) -> VectorTable:
    try:
        table = pq.read_table(path, columns=_SCHEMA.names).cast(_SCHEMA)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    lengths = pc.unique(pc.list_value_length(table["vector"])).to_pylist()
    if len(lengths) > 1 or None in lengths or table["label"].null_count:
        raise DataError(f"{path} has vectors of different lengths, or lacks a label or a vector", _REMEDY)
    numbers = pc.list_flatten(table["vector"]).to_numpy()
    return VectorTable(table["label"].to_pylist(), numbers.reshape(len(table), *lengths))


def _read_lines(path: Path) -> VectorTable:
    labels: list[str] = []
    vectors: list[Float32s] = []
    for number, line in _lines(path):
        label, *numbers = line.split()
        try:
            with np.errstate(over="ignore"):  # infinite, which is found below
                vector = np.array(numbers, np.float32)
        except ValueError as error:
            raise DataError(f"{path}, line {number}: {label!r} is not followed by numbers", _REMEDY) from error
        if vectors and len(vector) != len(vectors[0]):
            raise DataError(f"{path}, line {number}: {len(vector)} numbers instead of {len(vectors[0])}", _REMEDY)
        labels.append(label)
        vectors.append(vector)
    return VectorTable(labels, np.array(vectors, np.float32).reshape(len(vectors), -1 if vectors else 0))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, and their numbers from 1."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(f"{path} cannot be read ({(str(error).splitlines() or ['cut off'])[0]})", _REMEDY)
