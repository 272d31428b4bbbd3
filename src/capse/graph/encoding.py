"""From tables of labels to arrays of ids, without a Python loop over triples."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from capse.arrays import Float32s
from capse.errors import DataError
from capse.graph.vocabulary import Vocabulary
from capse.triples import HEAD, RELATION, TAIL, TripleIndex

IntTriples = npt.NDArray[np.int32]  # (n, 3): head, relation, tail


def distinct(triples: IntTriples, entities: int, relations: int) -> IntTriples:
    """The same triples, sorted, each once."""
    keys = np.sort(TripleIndex(triples[:0], entities, relations).key(*triples.T))
    keys = keys[np.diff(keys, prepend=-1) > 0]  # several times faster than np.unique, which hashes
    pairs, tails = np.divmod(keys, entities)
    heads, relation_ids = np.divmod(pairs, relations)
    return np.stack([heads, relation_ids, tails], axis=1).astype(np.int32)


def weights_of(triples: IntTriples, given: IntTriples, weights: Float32s, index: TripleIndex) -> Float32s:
    """The weights of distinct sorted triples, those of rows that say one of them again being the largest."""
    places = np.searchsorted(index.key(*triples.T), index.key(*given.T))
    largest = np.zeros(len(triples), np.float32)
    np.maximum.at(largest, places, weights)
    return largest


def labels_of(tables: Iterable[pa.Table], *columns: str) -> set[str]:
    """Every label that occurs in these columns."""
    chosen = [table[column] for table in tables for column in columns]
    if not chosen:
        return set()
    merged = _merged(chosen)
    labels = merged.chunk(0).dictionary
    used = np.zeros(len(labels), bool)
    used[_indices(merged)] = True
    return set(labels.filter(pa.array(used)).to_pylist())


def encode(where: object, table: pa.Table, entities: Vocabulary, relations: Vocabulary) -> IntTriples:
    """The ids of a table's labels; a label that has none is a DataError that names ``where``."""
    if not len(table):
        return np.empty((0, 3), np.int32)
    ends = _ids(where, _merged([table["head"], table["tail"]]), entities)
    triples = np.empty((len(table), 3), np.int32)
    triples[:, HEAD], triples[:, TAIL] = ends[: len(table)], ends[len(table) :]
    triples[:, RELATION] = _ids(where, _merged([table["relation"]]), relations)
    return triples


def _ids(where: object, column: pa.ChunkedArray, vocabulary: Vocabulary) -> npt.NDArray[np.int32]:
    labels = column.chunk(0).dictionary
    places = pc.index_in(labels, value_set=vocabulary.arrow()).fill_null(-1).to_numpy()
    indices = _indices(column)
    ids: npt.NDArray[np.int32] = places[indices]
    unknown = np.flatnonzero(ids < 0)
    if len(unknown):
        count = len(np.unique(indices[unknown]))
        first = labels[indices[unknown[0]].item()].as_py()
        raise DataError(
            f"{where}: {count:,} of its labels are no {vocabulary.kind} of the run, {first!r} the first of them",
            "use the data that the run was trained on",
        )
    return ids


def _merged(columns: Iterable[pa.ChunkedArray]) -> pa.ChunkedArray:
    """One column whose chunks share one dictionary."""
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks]).unify_dictionaries()


def _indices(column: pa.ChunkedArray) -> npt.NDArray[np.int32]:
    return np.concatenate([chunk.indices.to_numpy() for chunk in column.chunks])
