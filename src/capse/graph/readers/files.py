"""Opening text that may be compressed, and reading it line by line without trusting it."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from capse.errors import DataError

LONGEST_LINE = 1 << 20  # characters

READ_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)


def _open_zstd(path: Path) -> IO[bytes]:
    import pyarrow as pa  # slow to import, and the help of commands asks for suffixes alone

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


def check_compressed(path: Path) -> None:
    """Read a compressed file to its end, where its checksum stands, for readers that do not ask for that."""
    if name_parts(path)[2]:
        try:
            with open_binary(path) as stream:
                while stream.read(1 << 20):
                    pass
        except READ_ERRORS as error:
            raise read_error(path, error) from error


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


def lines(path: Path, encoding: str | None = None) -> Iterator[tuple[int, str]]:
    """Every line of a text with its number, its line end (LF, CRLF or CR) included.

    The text is UTF-8, or UTF-16 where it begins with that encoding's mark, or whatever ``encoding`` says. Text that is
    not so encoded, a line longer than LONGEST_LINE and a damaged file are DataErrors that name the line.
    """
    number = 0
    try:
        with open_binary(path) as stream, _text(stream, encoding) as text:
            while line := text.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise DataError(
                        f"{path}, line {number}: longer than {LONGEST_LINE:,} characters", "is this a file of triples?"
                    )
                if not line.isascii() and not _is_utf8(line):
                    raise _wrong_encoding(path, number, encoding)
                yield number, line
    except UnicodeError as error:
        raise _wrong_encoding(path, number + 1, encoding) from error
    except READ_ERRORS as error:
        raise read_error(path, error, number) from error


def _text(stream: Any, encoding: str | None) -> io.TextIOWrapper:
    if encoding is None:
        marked = stream.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        encoding = "utf-16" if marked else "utf-8-sig"
    # surrogateescape lets a bad byte through as a lone surrogate, so that it can be met in its line.
    return io.TextIOWrapper(stream, encoding, "surrogateescape", newline="")


def _wrong_encoding(path: Path, number: int, encoding: str | None) -> DataError:
    remedy = "convert the file to UTF-8, or import it with --encoding, e.g. windows-1252"
    return DataError(f"{path}, line {number}: not {encoding or 'UTF-8'} text", remedy)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
