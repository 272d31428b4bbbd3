"""Triples of a file in the vocabulary of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from capse.arrays import Int64s
from capse.errors import CapseError, DataError
from capse.graph.dataset import Graph
from capse.graph.readers import format_of
from capse.graph.readers.rows import checked_labels

_REMEDY = "give columns head, relation and tail"


def read_known_triples(path: str | Path, graph: Graph) -> Int64s:
    """The ids (n, 3) of the triples of a file, in its order; a row with a name that the graph lacks is an error."""
    file = Path(path)
    source = format_of(file)
    rows = [_encoded(f"{file}, {source.unit} {number}", fields, graph) for number, fields in source.rows(file)]
    if not rows:
        raise DataError(f"{file}: no triples in it", _REMEDY)
    return np.array(rows, np.int64)


def _encoded(where: str, fields: Sequence[object], graph: Graph) -> tuple[int, int, int]:
    head, relation, tail = checked_labels(where, fields, _REMEDY)
    try:
        return graph.entities.id(head), graph.relations.id(relation), graph.entities.id(tail)
    except CapseError as error:
        raise DataError(f"{where}: {error.message}", error.remedy) from error
