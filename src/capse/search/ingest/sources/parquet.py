"""Parquet logs: one row per result (see ``columns``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from capse.errors import DataError
from capse.search.ingest.sources.columns import Columns, Rows
from capse.search.ingest.sources.files import reading, with_suffix
from capse.search.ingest.staging import Staging

_SUFFIXES = (".parquet",)
_ROWS_AT_ONCE = 200_000


def suits(paths: Sequence[Path]) -> bool:
    """Whether a file has the columns of a log."""
    try:
        return any(_columns(path).is_log() for path in with_suffix(paths, _SUFFIXES))
    except DataError:
        return False


def stage(paths: Sequence[Path], staging: Staging) -> None:
    """Bring all files into the staged form; every row that cannot be read is rejected."""
    for path in with_suffix(paths, _SUFFIXES):
        columns = _columns(path)
        columns.check(path)
        with reading(path), pq.ParquetFile(path) as file:
            done = 1
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=list(columns.found.values())):
                Rows(path, columns, pa.Table.from_batches([batch]), done.__add__, staging).stage()
                done += len(batch)


def _columns(path: Path) -> Columns:
    with reading(path):
        return Columns.of(pq.read_schema(path).names)
