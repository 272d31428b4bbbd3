"""A graph as columns on disk that are opened without being held in memory.

``columns.json`` says what there is, with the SHA-256 of each file; ``entities.arrow`` and ``relations.arrow`` have each
label once, in the order of ids, ``*.names.arrow`` what people are shown, and ``train.npy``, ``valid.npy`` and
``test.npy`` the triples as ids, sorted. All are mapped into memory: once the checksums are compared, what nobody
touches is not held.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from capse.errors import DataError
from capse.graph.encoding import IntTriples
from capse.graph.mapped_labels import MappedLabels
from capse.graph.vocabulary import Vocabulary
from capse.runs.atomic import atomic_folder, write_json

if TYPE_CHECKING:
    from capse.graph.dataset import Graph

FILE = "columns.json"
FORMAT = 1
KINDS = {"entities": "entity", "relations": "relation"}
_REMEDY = "import the graph again"


def is_columns(folder: Path) -> bool:
    return (folder / FILE).is_file()


def write_triples(folder: Path, split: str, rows: int, chunks: Iterable[IntTriples]) -> None:
    """Write so many triples of a split, which come in chunks."""
    header = {"descr": "<i4", "fortran_order": False, "shape": (rows, 3)}
    with (folder / f"{split}.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for chunk in chunks:
            file.write(np.ascontiguousarray(chunk, "<i4").tobytes())


def describe_columns(folder: Path, said: dict[str, Any]) -> None:
    """Write down what is in a folder of columns, once all of it is there."""
    files = {path.name: _digest(path) for path in sorted(folder.iterdir())}
    whole = {"format": FORMAT, **said, "files": files}
    write_json(folder / FILE, {**whole, "sha256": _sum_of(whole)})


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sum_of(said: dict[str, Any]) -> str:
    """The checksum of what is said of a graph, its files' checksums included."""
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def open_columns(folder: Path) -> tuple[Vocabulary, Vocabulary, dict[str, IntTriples], dict[str, Any]]:
    """The vocabularies, the triples of train, valid and test, and what is said of them."""
    try:
        said: dict[str, Any] = json.loads((folder / FILE).read_text())
        if said["format"] != FORMAT:
            raise DataError(f"{folder} has format {said['format']}, this capse reads format {FORMAT}", _REMEDY)
        _check(folder, said)
        splits = {split: _mapped(folder / f"{split}.npy") for split in ("train", "valid", "test")}
        entities, relations = (_vocabulary(folder, stem, kind) for stem, kind in KINDS.items())
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        raise DataError(f"{folder}: not a readable graph of columns ({error})", _REMEDY) from error
    return entities, relations, splits, said


def _check(folder: Path, said: dict[str, Any]) -> None:
    """Refuse a folder with a file that is not the one that was written; of older folders no checksums are known."""
    if "files" not in said:
        return
    files = [FILE] * (_sum_of({name: value for name, value in said.items() if name != "sha256"}) != said["sha256"])
    files += [name for name, digest in said["files"].items() if _digest(folder / name) != digest]
    if files:
        raise DataError(f"{folder / files[0]} is damaged: it is not what was written", _REMEDY)


def _mapped(path: Path) -> IntTriples:
    # Copied where it is written to, which nobody does: torch wants arrays that could be.
    triples: IntTriples = np.load(path, mmap_mode="c" if path.stat().st_size > 128 else None, allow_pickle=False)
    return triples


def _vocabulary(folder: Path, stem: str, kind: str) -> Vocabulary:
    names = folder / f"{stem}.names.arrow"
    shown = MappedLabels.open(names) if names.is_file() else None
    return Vocabulary(MappedLabels.open(folder / f"{stem}.arrow"), shown, kind)


def copy_columns(source: Path, folder: Path) -> None:
    """The same graph in another folder, whole or not at all; files are shared where the file system can."""
    with atomic_folder(folder) as temporary:
        for path in source.iterdir():
            try:
                os.link(path, temporary / path.name)
            except OSError:
                shutil.copyfile(path, temporary / path.name)


def digest_of(graph: Graph) -> Iterator[bytes]:
    """What identifies a graph of columns without its being read."""
    assert graph.columns is not None
    yield json.loads((graph.columns / FILE).read_text())["sha256"].encode()
