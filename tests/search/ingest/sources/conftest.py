"""Staging a small log and looking at what was staged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from capse.search.ingest.staging import SCHEMAS, Staging


@dataclass
class Staged:
    """The staged tables as lists of rows, the notes, and the folder of what comes beside them."""

    results: list[dict[str, Any]]
    clicks: list[dict[str, Any]]
    documents: list[dict[str, Any]]
    actions: list[dict[str, Any]]
    fields: list[dict[str, Any]]
    rejects: list[dict[str, Any]]
    notes: list[str]
    extras: Path


@pytest.fixture
def staged(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Staged]:
    """Stage paths with a source's ``stage`` and read the tables."""

    def run(stage: Callable[..., None], paths: Sequence[Path], **options: Any) -> Staged:
        folder = tmp_path_factory.mktemp("staged")
        with Staging(folder) as staging:
            stage(paths, staging, **options)
        tables = {name: pq.read_table(staging.path(name)).to_pylist() for name in SCHEMAS}
        return Staged(**tables, notes=staging.notes, extras=staging.extras)

    return run
