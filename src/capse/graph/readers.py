"""Which reader a file's name asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from capse.errors import DataError
from capse.graph.columnar import read_json_lines, read_parquet
from capse.graph.delimited import read_csv, read_tsv
from capse.graph.files import name_parts
from capse.graph.rdf import read_ntriples, read_turtle
from capse.graph.rows import Source

READERS: dict[str, Callable[[Path], Source]] = {
    ".tsv": read_tsv,
    ".txt": read_tsv,
    ".csv": read_csv,
    ".parquet": read_parquet,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".nt": read_ntriples,
    ".ttl": read_turtle,
}


def read_triples(path: Path) -> Source:
    """The triples of one file, read as its suffix says (train.tsv, train.nt.gz, train.parquet, ...)."""
    reader = READERS.get(name_parts(path)[1])
    if reader is None:
        known = " ".join(READERS)
        raise DataError(f"{path}: not a known format", f"use one of {known}, plain or with .gz .bz2 .xz .zst")
    source = reader(path)
    return replace(source, table=source.table.unify_dictionaries().combine_chunks())
