"""Opening text that may be compressed, and reading it line by line without trusting it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from capse.errors import DataError

LONGEST_LINE = 1 << 20  # characters

READ_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)


def _open_zstd(path: Path) -> IO[bytes]:
    return io.BufferedReader(pa.CompressedInputStream(pa.OSFile(str(path)), "zstd"))


_DECOMPRESSORS: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _open_zstd,
}


def name_parts(path: Path) -> tuple[str, str, str]:
    """A file's stem, the suffix of its format and the suffix of its compression.

    >>> name_parts(Path("data/train.txt.gz"))
    ('train', '.txt', '.gz')
    >>> name_parts(Path("wiki.v2.nt"))
    ('wiki.v2', '.nt', '')
    """
    compression = path.suffix.lower() if path.suffix.lower() in _DECOMPRESSORS else ""
    inner = Path(path.name[: -len(compression)] if compression else path.name)
    return inner.stem, inner.suffix.lower(), compression


def open_binary(path: Path) -> IO[bytes]:
    """Open a plain or compressed file as a stream of bytes."""
    decompress = _DECOMPRESSORS.get(name_parts(path)[2])
    stream: IO[bytes] = decompress(path) if decompress else path.open("rb")
    return stream


def read_error(path: Path, error: BaseException, after_line: int = 0) -> DataError:
    """What went wrong while reading ``path``, as a DataError."""
    if isinstance(error, FileNotFoundError):
        return DataError(f"{path}: no such file", "check the path")
    if isinstance(error, IsADirectoryError):
        return DataError(f"{path}: a folder, not a file", "name the files in it")
    if isinstance(error, OSError) and error.errno is not None:
        return DataError(f"{path}: cannot be read ({error.strerror})", "check the file and its permissions")
    where = f"{path}, after line {after_line}" if after_line else str(path)
    return DataError(f"{where}: damaged or cut short ({error})", "copy or download the file again")


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Every line of a UTF-8 text with its number, its line end (LF, CRLF or CR) included.

    Bad UTF-8, a line longer than LONGEST_LINE and a damaged file are DataErrors that name the line.
    """
    number = 0
    try:
        # surrogateescape lets a bad byte through as a lone surrogate, so that it can be met in its line.
        with io.TextIOWrapper(open_binary(path), "utf-8-sig", "surrogateescape", newline="") as text:
            while line := text.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise DataError(
                        f"{path}, line {number}: longer than {LONGEST_LINE:,} characters", "is this a file of triples?"
                    )
                if not line.isascii() and not _is_utf8(line):
                    raise DataError(f"{path}, line {number}: not UTF-8 text", "convert the file to UTF-8")
                yield number, line
    except READ_ERRORS as error:
        raise read_error(path, error, number) from error


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
