"""Nearest neighbours by a FAISS index, which other programs can read too.

The index is exact: inner products of vectors of length 1, position i being entity id i. Beside it lies a JSON file with
the labels and with what it was built from, so that it cannot answer for another run.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capse.errors import DataError, MissingExtraError, RunError, SettingsError
from capse.graph.link_prediction.neighbours import Neighbour, named, unit_vectors
from capse.runs.atomic import atomic_path, write_json

if TYPE_CHECKING:
    from capse.graph.link_prediction.predictor import LinkPredictor


def write_index(predictor: LinkPredictor, path: str | Path) -> None:
    """Write the index, and its description beside it."""
    faiss = _faiss()
    vectors = unit_vectors(predictor)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    with atomic_path(path) as temporary:
        faiss.write_index(index, str(temporary))
    said = {"of": _fingerprint(predictor), "sha256": _digest(path), "labels": predictor.graph.entities.labels}
    write_json(_beside(path), said)


def similar_by_index(predictor: LinkPredictor, path: str | Path, entity: str, top: int = 10) -> list[Neighbour]:
    """The nearest entities as `similar` gives them, up to rounding and the order of equals."""
    if top < 1:
        raise SettingsError(f"the {top} nearest are asked for", "ask for 1 or more")
    place = predictor.graph.entities.id(entity)
    index = _read(predictor, path)
    query = unit_vectors(predictor)[place : place + 1]
    similarities, ids = index.search(query, min(top + 1, index.ntotal))
    others = ids[0] != place
    return named(predictor, ids[0][others][:top].astype(np.int64), similarities[0][others][:top].astype(np.float64))


def _read(predictor: LinkPredictor, path: str | Path) -> Any:
    faiss = _faiss()
    remedy = "build it with 'capse export RUN --format faiss'"
    try:
        said = json.loads(_beside(path).read_text(encoding="utf-8"))
        built_of, damaged = said["of"], said.get("sha256") not in (None, _digest(path))
        index = None if damaged else faiss.read_index(str(path))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise DataError(f"{path} is no index with its description beside it", remedy) from error
    if index is None:
        raise DataError(f"{path} is damaged: it is not what was written", remedy)
    if built_of != _fingerprint(predictor):
        raise RunError(f"{path} was built for another run", remedy)
    return index


def _fingerprint(predictor: LinkPredictor) -> str:
    """Changes with any vector and any label."""
    digest = hashlib.sha256("\n".join(predictor.graph.entities.labels).encode())
    digest.update(np.ascontiguousarray(unit_vectors(predictor)).tobytes())
    return digest.hexdigest()


def _digest(path: str | Path) -> str:
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _beside(path: str | Path) -> Path:
    return Path(f"{path}.json")


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("a FAISS index", "faiss") from error
    return faiss
