"""The files of an ingested log, written from what the pipeline computed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from capse.search.ingest.engines import Engine
from capse.search.ingest.pipeline import Ingested
from capse.search.ingest.staging import Staging
from capse.search.logs import documents as documents_module
from capse.search.logs.search_log import IMPRESSIONS, RESULTS
from capse.search.times import to_seconds


def write_tables(folder: Path, engine: Engine, ingested: Ingested, staging: Staging) -> None:
    """impressions.parquet, results.parquet, documents.parquet, quarantine.jsonl, and what the source adds to them."""
    if staging.extras.is_dir():
        shutil.copytree(staging.extras, folder, dirs_exist_ok=True)
    _write(folder / "impressions.parquet", IMPRESSIONS, engine.batches(ingested.impressions, "final_impressions"))
    _write(folder / "results.parquet", RESULTS, engine.batches(ingested.results, "final_results"))
    described = map(_with_terms, engine.batches(ingested.documents, "final_documents"))
    _write(folder / "documents.parquet", documents_module.SCHEMA, described)
    with (folder / "quarantine.jsonl").open("w", encoding="utf-8") as file:
        with pq.ParquetFile(staging.path("rejects")) as rejects:
            for batch in rejects.iter_batches():
                _lines(file, "source", batch, "reason")
        for table, rows in ingested.quarantine.items():
            for batch in engine.batches(rows, f"quarantine_{table}"):
                _lines(file, table, batch, "outcome")


def _write(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_table(pa.Table.from_batches([batch]).select(schema.names).cast(schema))


def _with_terms(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Word counts as a map, where they were JSON."""
    kind = documents_module.SCHEMA.field("terms").type
    terms = [None if text is None else list(json.loads(text).items()) for text in batch["terms"].to_pylist()]
    titles = batch["title"].fill_null("")
    return pa.RecordBatch.from_arrays(
        [batch["document"], titles, batch["text"], pa.array(terms, kind)], schema=documents_module.SCHEMA
    )


def _lines(file: IO[str], table: str, batch: pa.RecordBatch, reason: str) -> None:
    """One line per row: the reason, the table, and the row's values that are not null; times in seconds."""
    for row in batch.to_pylist():
        line: dict[str, Any] = {"reason": row.pop(reason), "table": table}
        line |= {name: value for name, value in row.items() if value is not None}
        if "time" in line:
            line["time"] = to_seconds(line["time"])
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
