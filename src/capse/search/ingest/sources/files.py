"""Finding the files of a log, and opening them whether compressed or not."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from capse.errors import DataError
from capse.search.ingest.staging import files_of

_COMPRESSIONS = (".gz", ".bz2", ".zst")


def with_suffix(paths: Sequence[Path], suffixes: Sequence[str]) -> list[Path]:
    """The files of a format, known by their suffix or named where none has it; with the documents.* beside them."""
    files = [path for path in files_of(paths) if _has(path, suffixes)] or [path for path in paths if not path.is_dir()]
    beside = {
        file.absolute(): file
        for path in files
        if path in paths
        for file in files_of([path.parent])
        if file.name.split(".")[0] == "documents" and _has(file, suffixes)
    }
    known = {file.absolute() for file in files}
    return files + [file for place, file in beside.items() if place not in known]


def _has(path: Path, suffixes: Sequence[str]) -> bool:
    name = path.name.lower()
    for compression in _COMPRESSIONS:
        name = name.removesuffix(compression)
    return name.endswith(tuple(suffixes))


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what goes wrong while reading ``path`` into a DataError that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file", "check the path") from error
    except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: cannot be read ({reason})", "check the file, or copy it again") from error


def open_stream(path: Path) -> IO[bytes]:
    """A plain or compressed file as a stream of bytes."""
    return io.BufferedReader(native_stream(path))


def native_stream(path: Path) -> pa.NativeFile:
    """The same without Python, for readers that read ahead in threads: these must not call Python while it ends."""
    return pa.input_stream(str(path), compression="detect")


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, with their numbers from 1."""
    with reading(path), open_stream(path) as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                yield number, line


def first_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file's first line; an empty one where there is none."""
    try:
        found = json.loads(next(lines(path))[1])
    except (DataError, ValueError, RecursionError, StopIteration):
        return {}
    return found if isinstance(found, dict) else {}


def encodable(text: str) -> str:
    """The text itself, which must be Unicode: JSON can hold halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("a text that is not Unicode") from None
    return text
