"""The fields of a log's items, users, requests and results, as its schema types them.

On disk they lie in the log's folder, in `fields/`: `schema.yaml`, and for each scope that has fields a table.

    item.parquet      document, and a column for each field
    user.parquet      impression (the source's id), ...; so request.parquet
    result.parquet    impression, document, ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from capse.arrays import Int64s
from capse.errors import DataError
from capse.runs.atomic import write_text
from capse.search.logs.field_schema import SETS, FieldSchema, Scope
from capse.search.logs.field_values import Column, TextSets, from_arrow, taken

FOLDER, SCHEMA = "fields", "schema.yaml"
KEYS: Mapping[Scope, tuple[str, ...]] = {
    "item": ("document",),
    "user": ("impression",),
    "request": ("impression",),
    "result": ("impression", "document"),
}


@dataclass(frozen=True)
class LogFields:
    """A schema and its columns: of items (D,), of users and requests (n,), of results (m,)."""

    schema: FieldSchema = field(default_factory=FieldSchema)
    item: Mapping[str, Column] = field(default_factory=dict)
    user: Mapping[str, Column] = field(default_factory=dict)
    request: Mapping[str, Column] = field(default_factory=dict)
    result: Mapping[str, Column] = field(default_factory=dict)

    def of(self, scope: Scope) -> Mapping[str, Column]:
        """The columns of a scope."""
        columns: Mapping[str, Column] = getattr(self, scope)
        return columns

    def part(self, impressions: Int64s, rows: Int64s) -> LogFields:
        """Those of some impressions and their results."""
        user, request = (taken(columns, impressions) for columns in (self.user, self.request))
        return replace(self, user=user, request=request, result=taken(self.result, rows))

    def content(self) -> list[bytes]:
        """All of it as bytes, for a fingerprint."""
        parts = [repr(self.schema).encode()] if self.schema else []
        for columns in (self.item, self.user, self.request, self.result):
            for one in columns.values():
                if isinstance(one, TextSets):
                    parts += [one.starts.tobytes(), one.codes.tobytes(), "\n".join(one.labels).encode()]
                else:
                    parts.append(one.tobytes())
        return parts

    @classmethod
    def load(
        cls, log: Path, impressions: pa.ChunkedArray, documents: Sequence[str], owner: Int64s, document: Int64s
    ) -> LogFields:
        """Those of a log's folder: of impressions by the source's ids, of results by impression and document."""
        folder = log / FOLDER
        if not folder.is_dir():
            return cls()
        schema = FieldSchema.load(folder / SCHEMA)
        ids = pa.array(documents, pa.string())
        asked: dict[Scope, Callable[[pa.Table], pa.Array]] = {
            "item": lambda table: pc.index_in(ids, value_set=table["document"].combine_chunks()),
            "user": lambda table: _of_impressions(table, impressions),
            "request": lambda table: _of_impressions(table, impressions),
            "result": lambda table: rows_of_results(table, impressions, ids, owner, document),
        }
        columns: dict[Scope, Mapping[str, Column]] = {}
        try:
            for scope, rows in asked.items():
                types = schema.types(scope)
                if types:
                    table = pq.read_table(folder / f"{scope}.parquet")
                    columns[scope] = from_arrow(types, table, rows(table))
        except (OSError, pa.ArrowException, KeyError) as error:
            raise DataError(f"{folder} is damaged ({str(error).splitlines()[0]})", "ingest the log again") from error
        return cls(schema, **dict(columns))


def write_schema(log: Path, schema: FieldSchema) -> None:
    (log / FOLDER).mkdir()
    write_text(log / FOLDER / SCHEMA, yaml.safe_dump(schema.to_mapping(), sort_keys=False, allow_unicode=True))


def table_schema(schema: FieldSchema, scope: Scope) -> pa.Schema:
    """The columns of a scope's table."""
    kinds = {
        name: pa.list_(pa.string()) if kind in SETS else pa.float64() for name, kind in schema.types(scope).items()
    }
    return pa.schema([(key, pa.string()) for key in KEYS[scope]] + list(kinds.items()))


def _of_impressions(table: pa.Table, impressions: pa.ChunkedArray) -> pa.Array:
    return pc.index_in(impressions.combine_chunks(), value_set=table["impression"].combine_chunks())


def rows_of_results(
    table: pa.Table, impressions: pa.ChunkedArray, ids: pa.Array, owner: Int64s, document: Int64s
) -> pa.Array:
    """(m,) the row of the table that each result has; null where it has none."""
    lists = pc.index_in(table["impression"].combine_chunks(), value_set=impressions.combine_chunks())
    shown = pc.index_in(table["document"].combine_chunks(), value_set=ids)
    span = len(ids) + 1
    keys = np.asarray(lists.fill_null(-1), np.int64) * span + np.asarray(shown.fill_null(len(ids)), np.int64)
    order = np.argsort(keys, kind="stable")
    wanted = owner * span + document
    places = np.searchsorted(keys[order], wanted)
    found = np.append(keys[order], -1)[places] == wanted
    return pa.array(np.append(order, 0)[places], mask=~found)
