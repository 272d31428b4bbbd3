"""From a log in any known format to the folder that ``capse.search.logs.search_log`` reads.

A source stages the log (``staging``), the pipeline (``pipeline``) finds sessions and satisfied clicks and sets broken
rows aside, and the result is written whole or not at all.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from capse.errors import DataError
from capse.runs.atomic import atomic_folder, check_free, write_json
from capse.search.ingest.action_writing import ActionCounts, write_actions
from capse.search.ingest.engines import ENGINES, open_engine
from capse.search.ingest.field_writing import FieldCounts, write_fields
from capse.search.ingest.settings import IngestSettings
from capse.search.ingest.sources import SOURCES, Source, detect
from capse.search.ingest.staging import Staging
from capse.search.logs.field_schema import FieldSchema
from capse.search.logs.search_log import FORMAT, SPLITS, SearchLog

__all__ = ["ENGINES", "SOURCES", "IngestReport", "IngestSettings", "ingest", "open_log"]

Progress = Callable[[str], None]


@dataclass(frozen=True)
class IngestReport:
    """What became of a log. In ``counts``, the rows of each table: staged = kept + collapsed + quarantined."""

    name: str
    source: list[str]  # names of files and folders, without their place
    source_format: str
    engine: str
    settings: dict[str, Any]
    counts: dict[str, Any]  # impressions, users, sessions, splits; results, clicks, documents; rejected
    quarantined: dict[str, int]  # rows by reason, those that the source could not read included
    notes: list[str]  # what a person should know
    seconds: float


def ingest(
    source: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    settings: IngestSettings | None = None,
    engine: str = "duckdb",
    format: str | Source | None = None,
    fields: FieldSchema | None = None,
    progress: Progress = lambda step: None,
) -> IngestReport:
    """Write the folder ``out`` from the files or folders of a log; its format is detected if not given.

    ``format`` may also be a source itself, which then may do without files. ``fields`` names those to learn from.
    ``progress`` is told each step as it begins. Nothing is left behind on an error or Ctrl-C.
    """
    start = time.perf_counter()
    settings = settings or IngestSettings()
    out = Path(out)
    check_free(out)
    paths = [Path(path) for path in ([source] if isinstance(source, (str, Path)) else source)]
    name, log_source = _source(paths, format)
    with atomic_folder(out) as folder:
        scratch = folder / "scratch"
        scratch.mkdir()
        with open_engine(engine, scratch, settings.memory_gib) as running:
            from capse.search.ingest.pipeline import run
            from capse.search.ingest.writing import write_tables

            progress("reading")
            staged = scratch / "staged"
            staged.mkdir()
            with Staging(staged) as staging:
                log_source.stage(paths, staging)
            ingested = run(running, staging, settings, progress)
            progress("writing")
            write_tables(folder, running, ingested, staging)
            values = write_fields(folder, staging, fields)
            actions = write_actions(folder, staging, settings)
        shutil.rmtree(scratch)
        if not ingested.counts["results"]["kept"]:
            raise DataError(
                f"{_names(paths) or name}: no usable row ({_reasons(ingested.quarantined)})", "check the format"
            )
        report = IngestReport(
            name=out.resolve().name,
            source=[path.resolve().name for path in paths],
            source_format=name,
            engine=engine,
            settings=asdict(settings),
            counts=_counts(folder) | ingested.counts | _beside(values, actions) | {"rejected": staging.rows["rejects"]},
            quarantined=ingested.quarantined | values.quarantined(fields or FieldSchema()) | actions.quarantined,
            notes=staging.notes + ingested.notes + values.notes() + actions.notes(),
            seconds=round(time.perf_counter() - start, 3),
        )
        write_json(folder / "log.json", {"format": FORMAT} | asdict(report))
    return report


def open_log(path: str | Path) -> SearchLog:
    """A log from an ingested folder; or from a raw one in a known format, which is ingested aside for this once."""
    path = Path(path)
    if (path / "log.json").is_file():
        return SearchLog.load(path)
    with tempfile.TemporaryDirectory() as aside:
        folder = Path(aside, path.resolve().name)
        ingest(path, folder)
        return SearchLog.load(folder)


def _source(paths: Sequence[Path], format: str | Source | None) -> tuple[str, Source]:
    """A source and the name of what it reads."""
    if format is not None and not isinstance(format, str):
        return str(getattr(format, "name", type(format).__name__)), format
    name = detect(paths) if format is None else format
    return name, SOURCES[name]


def _counts(folder: Path) -> dict[str, Any]:
    table = pq.read_table(folder / "impressions.parquet", columns=["user", "session", "query", "split"])
    splits = {row["values"]: row["counts"] for row in table["split"].value_counts().to_pylist()}
    return {
        "impressions": len(table),
        "splits": {split: splits.get(split, 0) for split in SPLITS},
        "users": pc.count_distinct(table["user"]).as_py(),
        "sessions": pc.count_distinct(table["session"]).as_py(),
        "queries": pc.count_distinct(table["query"]).as_py(),
    }


def _beside(values: FieldCounts, actions: ActionCounts) -> dict[str, Any]:
    """What became of fields and of events that are no clicks, where there are any."""
    found = {"fields": values.counts} if values.given else {}
    return found | ({"actions": actions.counts} if actions.counts else {})


def _names(paths: Sequence[Path]) -> str:
    return ", ".join(str(path) for path in paths)


def _reasons(quarantined: dict[str, int]) -> str:
    return ", ".join(f"{reason}: {count:,}" for reason, count in quarantined.items()) or "nothing in it"
