"""Logs in columns, one row per result: what delimited files and Parquet have in common.

    impression, time, user, query, position, document, and where known session, clicked, clicked_at, dwell, split
    document, and where known title, text         (in a file of their own)

A row whose time or position cannot be read is rejected; where only the click's time or dwell cannot be read, the result
stays and the click is rejected.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from capse.errors import DataError
from capse.search.ingest.staging import SCHEMAS, Staging, TableName
from capse.search.times import log_time

_NAMES = {
    "impression": ("impression", "impression_id"),
    "time": ("time", "timestamp"),
    "user": ("user", "user_id"),
    "session": ("session", "session_id"),
    "query": ("query",),
    "position": ("position", "rank"),
    "document": ("document", "doc", "document_id", "doc_id"),
    "clicked": ("clicked", "click"),
    "clicked_at": ("clicked_at", "click_time"),
    "dwell": ("dwell", "dwell_seconds"),
    "split": ("split",),
    "title": ("title",),
    "text": ("text",),
}
_LOG = ("impression", "time", "user", "query", "position", "document")
_DOCUMENT = ("document", "title", "text")
_TRUTH = {"true": True, "t": True, "yes": True, "1": True, "false": False, "f": False, "no": False, "0": False}


@dataclass(frozen=True)
class Columns:
    """Which column of a file is which."""

    found: dict[str, str]  # name here: name in the file

    @classmethod
    def of(cls, names: Sequence[str]) -> Columns:
        lower = {name.strip().lower(): name for name in reversed(names)}
        chosen = {ours: [lower[theirs] for theirs in known if theirs in lower] for ours, known in _NAMES.items()}
        return cls({ours: theirs[0] for ours, theirs in chosen.items() if theirs})

    def is_log(self) -> bool:
        return "impression" in self.found and "document" in self.found

    def check(self, path: Path) -> None:
        """Raise unless these are the columns of a log or of documents."""
        needed = _LOG if "impression" in self.found else ("document",)
        missing = [name for name in needed if name not in self.found]
        if missing:
            raise DataError(f"{path}: no column {', '.join(missing)}", f"a log has the columns {', '.join(_LOG)}")


class Rows:
    """Rows of a file on their way into the staged tables."""

    def __init__(
        self, path: Path, columns: Columns, table: pa.Table, number_of: Callable[[int], int], staging: Staging
    ) -> None:
        self.path = path
        self.columns = columns
        self.table = table
        self.number_of = number_of  # the number in the file of a row of the table
        self.staging = staging
        self.readable = np.ones(len(table), bool)

    def stage(self) -> None:
        """Stage what can be read and reject the rest."""
        if self.columns.is_log():
            self._stage_results()
        else:
            described = {
                name: self._read(name, _text, pa.string(), f"a {name} that is not Unicode") for name in _DOCUMENT
            }
            self._put("documents", described)

    def _stage_results(self) -> None:
        values = {
            "time": self._read("time", log_time, pa.int64(), "an unreadable time"),
            "position": self._read("position", _whole, pa.int64(), "an unreadable position"),
        }
        for name in ("impression", "user", "session", "query", "document", "split"):
            values[name] = self._read(name, _text, pa.string(), f"a {name} that is not Unicode")
        self._put("results", values)

        at = self._read("clicked_at", log_time, pa.int64(), "click with an unreadable time")
        dwell = self._read("dwell", _number, pa.float64(), "click with an unreadable dwell")
        clicked = self._read("clicked", _truth, pa.bool_(), "an unreadable clicked")
        clicked = clicked.fill_null(False) if "clicked" in self.columns.found else at.is_valid()
        self._reject(pc.and_not(at.is_valid(), clicked), "time of a click on a result that was not clicked")
        click = {"impression": values["impression"], "document": values["document"], "time": at, "dwell": dwell}
        self._put("clicks", click, clicked)

    def _read(self, name: str, parse: Callable[[Any], Any], kind: pa.DataType, reason: str) -> pa.Array:
        """A column, each distinct value parsed once; a value that is there but parses to None rejects its row."""
        if name not in self.columns.found:
            return pa.nulls(len(self.table), kind)
        column = self.table[self.columns.found[name]].combine_chunks()
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
            return column if kind == pa.int64() else self._parsed(column, parse, kind, reason)
        if kind == pa.string() and pa.types.is_binary(column.type):
            try:
                return _or_null(column.cast(pa.string()))
            except pa.ArrowInvalid:
                pass
        return self._parsed(column, parse, kind, reason)

    def _parsed(self, column: pa.Array, parse: Callable[[Any], Any], kind: pa.DataType, reason: str) -> pa.Array:
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        distinct = [_plain(value) for value in coded.dictionary.to_pylist()]
        parsed = pa.array([None if value is None else parse(value) for value in distinct], kind)
        values = parsed.take(coded.indices)
        given = pa.array([value is not None for value in distinct], pa.bool_()).take(coded.indices).fill_null(False)
        self._reject(pc.and_(given, values.is_null()), reason)
        return values

    def _reject(self, rows: pa.Array, reason: str) -> None:
        for place in np.flatnonzero(self.readable & rows.to_numpy(zero_copy_only=False)).tolist():
            row = {name: _plain(value) for name, value in self.table.slice(place, 1).to_pylist()[0].items()}
            raw = json.dumps(row, ensure_ascii=False, default=str)
            self.staging.reject(self.path.name, self.number_of(place), reason, raw)
            self.readable[place] = False

    def _put(self, name: TableName, values: dict[str, pa.Array], chosen: pa.Array | None = None) -> None:
        schema = SCHEMAS[name]
        columns = [
            values.get(column, pa.nulls(len(self.table), kind))
            for column, kind in zip(schema.names, schema.types, strict=True)
        ]
        readable = pa.array(self.readable)
        rows = readable if chosen is None else pc.and_(readable, chosen)
        self.staging.table(name, pa.Table.from_arrays(columns, schema=schema).filter(rows))


def _or_null(column: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)


def _plain(value: Any) -> Any:
    """Bytes of a text file as text, or as they are where they are none; what stands for 'nothing' as None."""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return value
    return None if value == "" or (isinstance(value, float) and math.isnan(value)) else value


def _text(value: Any) -> str | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a column of whole numbers in which some are absent
    return None if isinstance(value, bytes) else str(value)


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number.is_integer() and abs(number) < 2**53 else None


def _truth(value: Any) -> bool | None:
    return _TRUTH.get(str(value).lower().removesuffix(".0"))
