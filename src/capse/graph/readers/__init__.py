"""Formats of graph files, by suffix; other packages add theirs in the entry point group ``capse.graph_formats``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capse.errors import DataError, SettingsError
from capse.graph.readers.files import name_parts
from capse.registry import Registry

if TYPE_CHECKING:
    from capse.graph.readers.formats import GraphFormat
    from capse.graph.readers.rows import Source

READERS: Registry[GraphFormat] = Registry(
    "graph format",
    "capse.graph_formats",
    {
        ".tsv": "capse.graph.readers.delimited:TSV",
        ".txt": "capse.graph.readers.delimited:TSV",
        ".csv": "capse.graph.readers.delimited:CSV",
        ".parquet": "capse.graph.readers.columnar:PARQUET",
        ".jsonl": "capse.graph.readers.columnar:JSON_LINES",
        ".ndjson": "capse.graph.readers.columnar:JSON_LINES",
        ".nt": "capse.graph.readers.rdf:N_TRIPLES",
        ".ttl": "capse.graph.readers.rdf:TURTLE",
        ".nq": "capse.graph.readers.rdf:N_QUADS",
        ".rdf": "capse.graph.readers.rdf:RDF_XML",
        ".owl": "capse.graph.readers.rdf:RDF_XML",
        ".jsonld": "capse.graph.readers.rdf:JSON_LD",
    },
)


def suffixes() -> str:
    """Those of all formats, other packages' among them, as the help names them."""
    return " ".join(suffix.removeprefix(".") for suffix in READERS)


def format_of(path: Path) -> GraphFormat:
    """The format that a file's name asks for (train.tsv, train.nt.gz, train.parquet, ...)."""
    suffix = name_parts(path)[1]
    if suffix not in READERS:
        known = " ".join(READERS)
        raise DataError(f"{path}: not a known format", f"use one of {known}, plain or with .gz .bz2 .xz .zst")
    return READERS[suffix]


def read_triples(path: Path, layout: Mapping[str, Any] | None = None) -> Source:
    """The triples of one file, read as its suffix says; ``layout`` changes the settings of `Delimited` text."""
    source = (_text_of(path, layout) if layout else format_of(path)).read(path)
    return replace(source, table=source.table.unify_dictionaries().combine_chunks())


def _text_of(path: Path, layout: Mapping[str, Any]) -> GraphFormat:
    from capse.graph.readers.columnar import JsonLines, Parquet
    from capse.graph.readers.delimited import TSV, Delimited

    usual = READERS.get(name_parts(path)[1], TSV)
    if set(layout) == {"weight"} and isinstance(usual, Parquet | JsonLines):
        return replace(usual, **layout)
    if not isinstance(usual, Delimited):
        raise SettingsError(f"{path} is not delimited text", f"leave out {', '.join(layout)} for it")
    return replace(usual, **layout)
