"""Graphs written to disk: a folder of Parquet files, and of names where there are any."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from capse.arrays import Float32s
from capse.graph.columns import copy_columns
from capse.graph.dataset import SPLITS, Graph
from capse.graph.encoding import IntTriples
from capse.graph.names import write_names
from capse.graph.readers.rows import COLUMNS
from capse.runs.atomic import atomic_folder, check_free

_ROW_GROUP = 1 << 20  # triples


def save_graph(graph: Graph, folder: Path) -> None:
    """Write a graph as a folder that ``load_graph`` reads, whole or not at all; an empty split has no file."""
    check_free(folder)
    if graph.columns is not None:
        copy_columns(graph.columns, folder)
        return
    with atomic_folder(folder) as temporary:
        for split in SPLITS:
            if len(graph.split(split)):
                _write_triples(temporary / f"{split}.parquet", graph, graph.split(split), graph.weights.get(split))
        if graph.values is not None:
            pq.write_table(graph.values, temporary / "values.parquet", compression="zstd")
        for stem, vocabulary in (("entities", graph.entities), ("relations", graph.relations)):
            if vocabulary.names is not None:
                pairs = zip(vocabulary.labels, vocabulary.names, strict=True)
                named = ((label, name) for label, name in pairs if label != name)
                write_names(temporary / f"{stem}.tsv.gz", vocabulary.kind, named)


def _write_triples(path: Path, graph: Graph, triples: IntTriples, weights: Float32s | None) -> None:
    labels = [vocabulary.arrow() for vocabulary in (graph.entities, graph.relations, graph.entities)]
    schema = pa.schema([(column, pa.string()) for column in COLUMNS])
    if weights is not None:
        schema = schema.append(pa.field("weight", pa.float32()))
    # A dictionary as large as the vocabulary: beyond the default limit of 1 MiB Parquet would store plain text.
    layout = {"compression": "zstd", "dictionary_pagesize_limit": 1 << 30, "write_page_checksum": True}
    with pq.ParquetWriter(path, schema, **layout) as writer:
        for start in range(0, len(triples), _ROW_GROUP):
            rows = triples[start : start + _ROW_GROUP]
            columns = [
                label.take(pa.array(np.ascontiguousarray(ids))) for label, ids in zip(labels, rows.T, strict=True)
            ]
            if weights is not None:
                columns.append(pa.array(weights[start : start + _ROW_GROUP]))
            writer.write_table(pa.table(columns, schema=schema))


def copy_folder(source: Path, folder: Path) -> None:
    """Copy a dataset's files into a new folder, whole or not at all."""
    check_free(folder)
    with atomic_folder(folder) as temporary:
        for path in source.iterdir():
            if path.is_file():
                shutil.copyfile(path, temporary / path.name)
