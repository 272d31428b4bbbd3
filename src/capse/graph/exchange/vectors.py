"""The vectors of a run as a Parquet table, as NumPy arrays, and as word2vec's text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from capse.arrays import Float32s
from capse.errors import DataError, SettingsError
from capse.runs.atomic import atomic_path

if TYPE_CHECKING:
    from capse.graph.link_prediction.predictor import LinkPredictor


def write_parquet(predictor: LinkPredictor, path: str | Path) -> None:
    """Columns kind (entity or relation), label, name and vector (a list of float32).

    The rows of inverse relations, where a model has them, are of the kind inverse.
    """
    graph = predictor.graph
    entities, relations = tables(predictor)
    parts = [("entity", graph.entities, entities), ("relation", graph.relations, relations[: len(graph.relations)])]
    if len(relations) > len(graph.relations):
        parts.append(("inverse", graph.relations, relations[len(graph.relations) :]))
    rows = [
        pa.table(
            {
                "kind": pa.array([kind] * len(words), pa.string()),
                "label": pa.array(words.labels, pa.string()),
                "name": pa.array([words.name(i) for i in range(len(words))], pa.string()),
                "vector": pa.array(list(vectors), pa.list_(pa.float32())),
            }
        )
        for kind, words, vectors in parts
    ]
    with atomic_path(path) as temporary:
        pq.write_table(pa.concat_tables(rows), temporary, compression="zstd")


def write_numpy(predictor: LinkPredictor, path: str | Path) -> None:
    """An .npz with entities, relations, entity_labels and relation_labels; nothing in it is pickled."""
    entities, relations = tables(predictor)
    graph = predictor.graph
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(
            file,
            entities=entities,
            relations=relations,
            entity_labels=np.array(graph.entities.labels, np.str_),
            relation_labels=np.array(graph.relations.labels, np.str_),
        )


def write_word2vec(predictor: LinkPredictor, path: str | Path) -> None:
    """The entities' vectors as word2vec's text: a line of two counts, then a label and its numbers a line.

    Spaces of a label become underscores, as the format divides by spaces.
    """
    entities, _ = tables(predictor)
    words = ["_".join(label.split()) for label in predictor.graph.entities.labels]
    if len(set(words)) < len(words):
        twice = next(word for i, word in enumerate(words) if word in words[:i])
        raise DataError(f"two labels are {twice!r} once spaces are underscores", "export to Parquet or NumPy instead")
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write(f"{len(words)} {entities.shape[1]}\n")
        for word, vector in zip(words, entities, strict=True):
            file.write(f"{word} {' '.join(map(repr, vector.tolist()))}\n")


def tables(predictor: LinkPredictor) -> tuple[Float32s, Float32s]:
    """The entity and the relation table, float32 on the CPU."""
    entities, relations = (table.detach().float().cpu().numpy() for table in predictor.model.tables)
    if not entities.shape[1]:
        raise SettingsError("this model has no vectors", "choose one that embeds entities")
    return entities, relations


WRITERS: dict[str, Callable[[LinkPredictor, str | Path], None]] = {
    "parquet": write_parquet,
    "numpy": write_numpy,
    "word2vec": write_word2vec,
}
