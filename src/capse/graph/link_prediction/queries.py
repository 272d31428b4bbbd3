"""Queries, which are triples with a hole: (head, relation, ?), (?, relation, tail) and (head, ?, tail)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from capse.errors import CapseError, DataError
from capse.graph.dataset import Graph
from capse.graph.readers import format_of
from capse.graph.readers.rows import three_labels

FREE = -1  # stands where an entity or a relation is asked for

Queries = npt.NDArray[np.int32]  # (n, 3): head, relation, tail, with FREE for one of them

_REMEDY = "give columns head, relation and tail, and leave what is asked for empty"


def encode_query(graph: Graph, head: str | None, relation: str | None, tail: str | None) -> tuple[int, int, int]:
    """The ids of a query given by labels or names.

    >>> graph = Graph.from_triples([("berlin", "capital_of", "germany")])
    >>> encode_query(graph, "berlin", "capital_of", None)
    (0, 0, -1)
    """
    relation_id = FREE if relation is None else graph.relations.id(relation)
    head_id, tail_id = (FREE if text is None else graph.entities.id(text) for text in (head, tail))
    return head_id, relation_id, tail_id


def read_queries(path: Path, graph: Graph) -> Queries:
    """The queries of a file in any of the formats of triples, as its suffix says.

    A row has a head, a relation and a tail, and one of the three is empty: that is what it asks for. A header or keys
    may name two of them alone. Labels or names will do. A row that is no query is an error.
    """
    source = format_of(path)
    ids = (_encode(f"{path}, {source.unit} {number}", fields, graph) for number, fields in source.rows(path))
    queries: Queries = np.fromiter(ids, np.dtype((np.int32, 3)))
    return queries


def _encode(where: str, fields: Sequence[object], graph: Graph) -> tuple[int, int, int]:
    head, relation, tail = (label or None for label in three_labels(where, fields, _REMEDY))
    missing = [name for name, label in (("head", head), ("relation", relation), ("tail", tail)) if label is None]
    if len(missing) != 1:
        problem = f"no {' and no '.join(missing)}" if missing else "head, relation and tail, so nothing is asked"
        raise DataError(f"{where}: {problem}", _REMEDY)
    try:
        return encode_query(graph, head, relation, tail)
    except CapseError as error:
        raise DataError(f"{where}: {error.message}", error.remedy) from error
