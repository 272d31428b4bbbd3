"""The formats of logs that can be ingested: one module each, imported when it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import cast

from capse.errors import DataError, UnknownNameError
from capse.search.ingest.staging import Source

FORMATS = {
    "jsonl": "jsonl",
    "csv": "delimited",
    "parquet": "parquet",
    "search17": "search17",
    "trec": "trec",
    "metarank": "metarank",
    "git": "git",
}


def source_of(format: str) -> Source:
    """The source of a format by its name."""
    if format not in FORMATS:
        raise UnknownNameError("format", format, FORMATS, f"choose from {', '.join(FORMATS)}")
    return cast(Source, import_module(f"{__name__}.{FORMATS[format]}"))


def detect(paths: Sequence[Path]) -> str:
    """The name of the format that the files are in, judged by their content."""
    for path in paths:
        if not path.exists():
            raise DataError(f"{path}: no such file or folder", "check the path")
    for name in FORMATS:
        if source_of(name).suits(paths):
            return name
    names = ", ".join(str(path) for path in paths)
    raise DataError(f"{names}: no log in a known format", f"name it with --format: {', '.join(FORMATS)}")
