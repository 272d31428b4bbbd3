"""The form that every source brings its log into before the pipeline takes over: six tables in one folder.

    results.parquet     one row per document shown: impression, time, user, session, query, position, document, split
    clicks.parquet      one row per click: impression, document, time, dwell, event
    documents.parquet   one row per document that is described: document, title, text, terms
    actions.parquet     one row per event that is no click: impression, user, document, kind, time, event
    fields.parquet      one row per description by fields: scope, impression, document, time, fields
    rejects.parquet     what the source itself could not read: source, row, reason, raw

A source judges nothing: it stages what it finds, null where a value is absent, and rejects what it cannot read as these
columns (a time that is no time, a line that is no JSON). Duplicates, unknown documents, clock jumps, lists that are too
long, sessions and satisfied clicks are the pipeline's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from capse.search.logs.field_schema import Scope

TableName = Literal["results", "clicks", "documents", "actions", "fields", "rejects"]

SCHEMAS: dict[TableName, pa.Schema] = {
    "results": pa.schema(
        [
            ("impression", pa.string()),  # the event of showing one list; the same in all its rows
            ("time", pa.int64()),  # microseconds since 1970, UTC
            ("user", pa.string()),
            ("session", pa.string()),  # null: cut by the pipeline
            ("query", pa.string()),
            ("position", pa.int64()),  # the engine's rank, from 1
            ("document", pa.string()),
            ("split", pa.string()),  # train, valid (or dev, validation), test; null everywhere: cut by time
        ]
    ),
    "clicks": pa.schema(
        [
            ("impression", pa.string()),
            ("document", pa.string()),
            ("time", pa.int64()),  # microseconds since 1970, UTC; null: not known
            ("dwell", pa.float64()),  # seconds; null: not known
            ("event", pa.string()),  # the click's own id, where the log has one
        ]
    ),
    "documents": pa.schema(
        [
            ("document", pa.string()),
            ("title", pa.string()),
            ("text", pa.string()),
            ("terms", pa.string()),  # word counts as a JSON object
        ]
    ),
    "actions": pa.schema(
        [
            ("impression", pa.string()),  # null: bound to none
            ("user", pa.string()),  # null: the impression's
            ("document", pa.string()),
            ("kind", pa.string()),  # of `capse.search.logs.actions`
            ("time", pa.int64()),  # microseconds since 1970, UTC
            ("event", pa.string()),  # the event's own id, where the log has one
        ]
    ),
    "fields": pa.schema(
        [
            ("scope", pa.string()),  # item, user, request or result
            ("impression", pa.string()),  # null: of an item
            ("document", pa.string()),  # null: of a user or a request
            ("time", pa.int64()),  # of an item: when it was said; the latest stands
            ("fields", pa.string()),  # a JSON object
        ]
    ),
    "rejects": pa.schema([("source", pa.string()), ("row", pa.int64()), ("reason", pa.string()), ("raw", pa.string())]),
}

_ROWS_AT_ONCE = 100_000


class Staging:
    """Writes the staged tables, row by row or table by table; a context manager.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Staging(Path(folder)) as staging:
    ...         staging.result("i1", time=1_700_000_000_000_000, user="ada", query="engine", position=1, document="d1")
    ...         staging.click("i1", "d1", dwell=42.0)
    ...         staging.document("d1", title="On the engine", terms={"engine": 3})
    ...         staging.action("cart", "d1", impression="i1", time=1_700_000_009_000_000)
    ...         staging.fields("item", {"price": 3}, document="d1")
    ...         staging.reject("log.jsonl", 7, "not JSON", "{oops")
    ...         staging.note("made up for this example")
    ...     staging.rows
    {'results': 1, 'clicks': 1, 'documents': 1, 'actions': 1, 'fields': 1, 'rejects': 1}
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[TableName, int] = dict.fromkeys(SCHEMAS, 0)
        self.notes: list[str] = []  # what a person should know about this log; shown and stored with it
        self._waiting: dict[TableName, list[tuple[Any, ...]]] = {name: [] for name in SCHEMAS}
        self._writers: dict[TableName, pq.ParquetWriter] = {}

    def __enter__(self) -> Staging:
        self._writers = {name: pq.ParquetWriter(self.path(name), schema) for name, schema in SCHEMAS.items()}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                for name in SCHEMAS:
                    self._flush(name)
        finally:
            for writer in self._writers.values():
                writer.close()

    def path(self, name: TableName) -> Path:
        return self.folder / f"{name}.parquet"

    def result(
        self,
        impression: str | None,
        *,
        time: int | None,
        user: str | None,
        query: str | None,
        position: int | None,
        document: str | None,
        session: str | None = None,
        split: str | None = None,
    ) -> None:
        """One document of one list; ``time`` is that of the impression, in microseconds."""
        self._add("results", (impression, time, user, session, query, position, document, split))

    def click(
        self,
        impression: str | None,
        document: str | None,
        *,
        time: int | None = None,
        dwell: float | None = None,
        event: str | None = None,
    ) -> None:
        """One click on a document of a list; ``time`` in microseconds, ``dwell`` in seconds.

        A source whose clicks name a rank looks the document up in its list.
        """
        self._add("clicks", (impression, document, time, dwell, event))

    def action(
        self,
        kind: str | None,
        document: str | None,
        *,
        impression: str | None = None,
        user: str | None = None,
        time: int | None,
        event: str | None = None,
    ) -> None:
        """An event that is no click; one without an ``impression`` says what its user likes, and judges no list."""
        self._add("actions", (impression, user, document, kind, time, event))

    def document(
        self,
        document: str | None,
        *,
        title: str | None = None,
        text: str | None = None,
        terms: Mapping[str, int] | None = None,
    ) -> None:
        """What is known of a document; documents that are shown need not be described."""
        counts = None if terms is None else json.dumps(dict(terms), ensure_ascii=False)
        self._add("documents", (document, title, text, counts))

    def fields(
        self,
        scope: Scope,
        fields: Mapping[str, Any],
        *,
        impression: str | None = None,
        document: str | None = None,
        time: int | None = None,
    ) -> None:
        """Fields of an item (by its ``document``), of a user or a request (by the ``impression``), or of a result."""
        content = json.dumps(dict(fields), ensure_ascii=False)
        self._add("fields", (scope, impression, document, time, content))

    def reject(self, source: str, row: int | None, reason: str, raw: str) -> None:
        """A row that the source could not read: the file's name, the row's number, why, and the row itself."""
        self._add("rejects", (source, row, reason, raw))

    def note(self, line: str) -> None:
        """Something that a person who uses this log should know."""
        self.notes.append(line)

    def extra(self, name: str) -> Path:
        """Where to write a file that the ingested log keeps beside its tables, such as ``vectors/users.parquet``."""
        path = self.extras / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @property
    def extras(self) -> Path:
        """The folder of those files; it exists if there are any."""
        return self.folder / "extra"

    def table(self, name: TableName, rows: pa.Table | pa.RecordBatch) -> None:
        """Many rows at once, with the columns of the schema."""
        self._flush(name)
        self._write(name, pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows)

    def _add(self, name: TableName, row: tuple[Any, ...]) -> None:
        waiting = self._waiting[name]
        waiting.append(row)
        if len(waiting) >= _ROWS_AT_ONCE:
            self._flush(name)

    def _flush(self, name: TableName) -> None:
        waiting, schema = self._waiting[name], SCHEMAS[name]
        if waiting:
            columns = [
                pa.array(column, kind) for column, kind in zip(zip(*waiting, strict=True), schema.types, strict=True)
            ]
            waiting.clear()
            self._write(name, pa.Table.from_arrays(columns, schema=schema))

    def _write(self, name: TableName, table: pa.Table) -> None:
        self._writers[name].write_table(table.select(SCHEMAS[name].names).cast(SCHEMAS[name]))
        self.rows[name] += len(table)


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The files named, and the files directly inside the folders named; hidden ones are left out."""
    found: list[Path] = []
    for path in paths:
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        found += [file for file in inside if not file.name.startswith(".") and not file.is_dir()]
    return found
