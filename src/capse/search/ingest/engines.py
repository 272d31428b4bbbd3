"""Where the pipeline runs: in an embedded DuckDB, or on Spark. Both work on Parquet files in a scratch folder."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from capse.errors import MissingExtraError, UnknownNameError
from capse.runs.duckdb_errors import duckdb_errors
from capse.search.ingest.spark import spark_backend

ENGINES = ("duckdb", "spark")

_ROWS_AT_ONCE = 200_000


class Engine:
    """An Ibis backend that keeps what it computes in ``scratch``."""

    def __init__(self, backend: Any, scratch: Path) -> None:
        self.backend = backend
        self.scratch = scratch

    def read(self, path: Path) -> Any:
        """A Parquet file as an Ibis table."""
        return self.backend.read_parquet(path)

    def store(self, table: Any, name: str) -> Any:
        """The table, computed once and kept in the scratch folder."""
        return self.read(self._computed(table, name))

    def batches(self, table: Any, name: str) -> Iterator[pa.RecordBatch]:
        """The rows of a table in the order that it asks for."""
        path = self._computed(table, name)
        for part in sorted(path.glob("part-*")) if path.is_dir() else [path]:  # Spark's parts follow the order
            with pq.ParquetFile(part) as file:
                yield from file.iter_batches(_ROWS_AT_ONCE)

    def _computed(self, table: Any, name: str) -> Path:
        path = self.scratch / f"{name}.parquet"
        self.backend.to_parquet(table, path)
        return path

    def values(self, table: Any, **expressions: Any) -> dict[str, Any]:
        """Aggregates of one table, computed in one go; a sum or an ``any`` over no row is None."""
        return dict(table.agg(**expressions).to_pyarrow().to_pylist()[0])


@contextmanager
def open_engine(name: str, scratch: Path, memory_gib: float) -> Iterator[Engine]:
    """An engine by name; it is closed at the end."""
    if name not in ENGINES:
        raise UnknownNameError("engine", name, ENGINES, f"choose from {', '.join(ENGINES)}")
    with (
        duckdb_errors("allow it more with --set ingest.memory_gib=..."),
        _duckdb(scratch, memory_gib) if name == "duckdb" else spark_backend(scratch) as backend,
    ):
        yield Engine(backend, scratch)


@contextmanager
def _duckdb(scratch: Path, memory_gib: float) -> Iterator[Any]:
    try:
        import duckdb  # noqa: F401
        import ibis
    except ImportError as error:
        raise MissingExtraError("ingesting a log", "search") from error
    with warnings.catch_warnings():
        # Ibis 12 calls what DuckDB 2 has renamed.
        warnings.filterwarnings("ignore", category=DeprecationWarning, message="fetch_arrow_table")
        backend = ibis.duckdb.connect(
            threads=os.cpu_count() or 1,
            memory_limit=f"{memory_gib}GiB",
            temp_directory=str(scratch / "spill"),
            preserve_insertion_order=False,
        )
        try:
            backend.raw_sql("SET enable_progress_bar = false")  # or DuckDB draws one on standard output
            yield backend
        finally:
            backend.disconnect()
