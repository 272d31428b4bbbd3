"""Ingesting a small log written by hand, and looking at what became of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from capse.search.ingest import IngestReport, IngestSettings, ingest
from capse.search.logs.search_log import SearchLog


@dataclass
class Ingested:
    """A folder that was written, read back as rows."""

    report: IngestReport
    folder: Path

    @property
    def log(self) -> SearchLog:
        return SearchLog.load(self.folder)

    @property
    def quarantine(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "quarantine.jsonl").read_text().splitlines()]

    def table(self, name: str) -> list[dict[str, Any]]:
        return pq.read_table(self.folder / f"{name}.parquet").to_pylist()

    def result(self, label: str, document: str) -> dict[str, Any]:
        """The row of a document in the list of an impression."""
        labels = [row["impression"] for row in self.table("impressions")]
        return next(
            row for row in self.table("results") if (labels[row["impression"]], row["document"]) == (label, document)
        )

    @property
    def sessions(self) -> dict[str, str]:
        """The session of each impression."""
        return {row["impression"]: row["session"] for row in self.table("impressions")}

    @property
    def satisfied(self) -> set[tuple[str, str]]:
        """Impression and document of each satisfied click."""
        labels = [row["impression"] for row in self.table("impressions")]
        return {(labels[row["impression"]], row["document"]) for row in self.table("results") if row["satisfied"]}


@pytest.fixture(scope="session")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Ingested]:
    """Write records as JSON lines, ingest them with these settings, and read the folder."""

    def run(records: Sequence[Mapping[str, Any]], **settings: Any) -> Ingested:
        folder = tmp_path_factory.mktemp("ingested")
        (folder / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        report = ingest(folder / "log.jsonl", folder / "out", settings=IngestSettings(**settings))
        return Ingested(report, folder / "out")

    return run
