"""Staged fields as the tables of a log, each value of the type that the schema gives it.

A value of another type is set aside with the reason and counts as absent. A field of which most values are of another
type is a mistake in the schema, or in the log: then nothing is written.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from capse.errors import DataError
from capse.search.ingest.staging import Staging
from capse.search.logs.field_schema import SCOPES, FieldSchema, Scope, Value, read_value
from capse.search.logs.field_values import columns_of, to_arrow
from capse.search.logs.log_fields import FOLDER, KEYS, table_schema, write_schema

_ROWS_AT_ONCE = 50_000


@dataclass
class FieldCounts:
    """What became of the values of fields."""

    given: Counter[str] = field(default_factory=Counter)  # by scope and name
    bad: Counter[str] = field(default_factory=Counter)
    unnamed: Counter[str] = field(default_factory=Counter)  # which no schema names
    first: dict[str, str] = field(default_factory=dict)  # a value of another type, as it was given

    @property
    def counts(self) -> dict[str, int]:
        """As for the other tables: staged = kept + collapsed + quarantined."""
        given, bad = self.given.total(), self.bad.total()
        return {"staged": given, "kept": given - bad, "collapsed": 0, "quarantined": bad}

    def quarantined(self, schema: FieldSchema) -> dict[str, int]:
        """By reason."""
        reasons = {f"{scope}.{name} is no {kind}": self.bad[f"{scope}.{name}"] for scope, name, kind in schema}
        return {reason: count for reason, count in reasons.items() if count}

    def notes(self) -> list[str]:
        if not self.unnamed:
            return []
        named = ", ".join(sorted(self.unnamed))
        return [f"fields that no schema names are left out: {named}; name those to learn from with --fields"]


def write_fields(folder: Path, staging: Staging, schema: FieldSchema | None) -> FieldCounts:
    """`fields/` of a log's folder, if there is a schema, and what became of every value."""
    found = FieldCounts()
    writing = _Writing(folder, staging.path("fields"), schema or FieldSchema(), found)
    writing.scan()
    if schema is None:
        return found
    for scope, name, kind in schema:
        label = f"{scope}.{name}"
        if not found.given[label]:
            raise DataError(f"the log has no field {label}", "correct the name in the schema, or take it out")
        if 2 * found.bad[label] > found.given[label]:
            raise DataError(
                f"{found.bad[label]:,} of {found.given[label]:,} values of {label} are no {kind} "
                f"(the first is {found.first[label]})",
                "give the field its type in the schema, or correct the log",
            )
    write_schema(folder, schema)
    for scope in SCOPES:
        if schema.types(scope):
            writing.write(scope)
    return found


@dataclass
class _Writing:
    folder: Path
    staged: Path
    schema: FieldSchema
    found: FieldCounts

    def scan(self) -> None:
        """Count every value, and set aside those of another type."""
        with (self.folder / "quarantine.jsonl").open("a", encoding="utf-8") as file:
            for row, fields in self._rows():
                types = self.schema.types(row["scope"])
                for name, value in fields.items():
                    label = f"{row['scope']}.{name}"
                    if name not in types:
                        self.found.unnamed[label] += 1
                    elif value is not None:
                        self.found.given[label] += 1
                        if read_value(types[name], value) is None:
                            self._set_aside(file, row, label, types[name], value)

    def _set_aside(self, file: Any, row: Mapping[str, Any], label: str, kind: str, value: Any) -> None:
        self.found.bad[label] += 1
        self.found.first.setdefault(label, json.dumps(value, ensure_ascii=False)[:60])
        line = {"reason": f"{label} is no {kind}", "table": "fields", "value": value}
        line |= {key: row[key] for key in ("impression", "document") if row[key] is not None}
        file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def write(self, scope: Scope) -> None:
        path, kind = self.folder / FOLDER / f"{scope}.parquet", table_schema(self.schema, scope)
        with pq.ParquetWriter(path, kind, compression="zstd") as writer:
            for rows in self._items() if scope == "item" else self._parts(scope):
                values = [read for _, read in rows]
                keys = {key: pa.array([of[key] for of, _ in rows], pa.string()) for key in KEYS[scope]}
                columns = to_arrow(columns_of(self.schema.types(scope), values))
                writer.write_table(pa.table(keys | columns).cast(kind))

    def _parts(self, scope: Scope) -> Iterator[list[tuple[Mapping[str, Any], dict[str, Value]]]]:
        part: list[tuple[Mapping[str, Any], dict[str, Value]]] = []
        for row, fields in self._rows():
            if row["scope"] == scope:
                part.append((row, self.schema.read(scope, fields)))
                if len(part) == _ROWS_AT_ONCE:
                    yield part
                    part = []
        yield part

    def _items(self) -> Iterator[list[tuple[Mapping[str, Any], dict[str, Value]]]]:
        """Each item once, every field as it was said last."""
        known: dict[str, dict[str, tuple[int, Value]]] = {}
        for row, fields in self._rows():
            if row["scope"] == "item" and row["document"] is not None:
                of, at = known.setdefault(row["document"], {}), row["time"] or 0
                for name, value in self.schema.read("item", fields).items():
                    if name not in of or of[name][0] <= at:
                        of[name] = (at, value)
        yield [({"document": item}, {name: value for name, (_, value) in of.items()}) for item, of in known.items()]

    def _rows(self) -> Iterator[tuple[Mapping[str, Any], dict[str, Any]]]:
        with pq.ParquetFile(self.staged) as file:
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    yield row, json.loads(row["fields"])
