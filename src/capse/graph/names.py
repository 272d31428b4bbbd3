"""Human names: reading and writing files of them, and finding those nearest to a misspelt one."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from capse.errors import DataError
from capse.graph.readers.files import lines

KINDS = ("entity", "relation")
_REMEDY = "begin with a header 'entity<TAB>name' or 'relation<TAB>name', then one label and its name a line"


def read_names(path: Path) -> tuple[str, dict[str, str]]:
    """What a tab-separated file names ('entity' or 'relation', by its header) and the name of each label."""
    names: dict[str, str] = {}
    kind = ""
    for number, line in lines(path):
        label, _, rest = line.rstrip("\r\n").partition("\t")
        name = rest.partition("\t")[0]
        if number == 1:
            kind = label.lower()
            if kind not in KINDS or name.lower() != "name":
                raise DataError(f"{path}, line 1: not the header of a names file", _REMEDY)
        elif not label or not name:
            raise DataError(f"{path}, line {number}: a label or its name is missing", _REMEDY)
        elif label in names:
            raise DataError(f"{path}, line {number}: {label!r} has a name already", "keep one line for each label")
        else:
            names[label] = name
    if not kind:
        raise DataError(f"{path}: empty", _REMEDY)
    return kind, names


def write_names(path: Path, kind: str, rows: Iterable[tuple[str, str]]) -> None:
    """Write a compressed names file; the same rows give the same bytes."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
        file.write(f"{kind}\tname\n".encode())
        file.writelines(f"{label}\t{name}\n".encode() for label, name in rows)


def shortlist(text: str, candidates: Sequence[str], size: int = 50) -> list[str]:
    """The candidates that share most pairs of neighbouring letters with ``text``, best first.

    One pass over the bytes of all candidates, so that a million of them take a fraction of a second.

    >>> shortlist("Germny", ["France", "Germany", "Guernsey"], size=2)
    ['Germany', 'Guernsey']
    """
    wanted = np.zeros(1 << 16, bool)
    wanted[_pairs(np.frombuffer(text.lower().encode(errors="replace"), np.uint8))] = True
    column = pc.utf8_lower(pa.array(candidates, pa.large_string()))
    _, offsets_buffer, bytes_buffer = column.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)
    shared = wanted[_pairs(np.frombuffer(bytes_buffer, np.uint8)[: offsets[-1]])]
    shared_before = np.zeros(len(shared) + 1, np.int64)
    np.cumsum(shared, out=shared_before[1:])
    # A candidate's pairs end one byte before it does: the last would be half the next candidate's.
    hits = shared_before[np.maximum(offsets[1:] - 1, offsets[:-1])] - shared_before[offsets[:-1]]
    distance = -hits / (np.diff(offsets) + len(text))
    best = np.argpartition(distance, size)[:size] if size < len(distance) else np.arange(len(distance))
    return [candidates[index] for index in best[np.argsort(distance[best])] if hits[index]]


def _pairs(letters: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint16]:
    pairs = letters.astype(np.uint16)
    return pairs[:-1] * np.uint16(256) + pairs[1:]
