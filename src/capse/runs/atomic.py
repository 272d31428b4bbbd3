"""Files and folders that are either whole or not there.

A file is written beside its final name, forced to disk and renamed over it, so a reader (or a run that is killed) sees
the old content or the new one and never a part.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from capse.errors import SettingsError, StorageError

_STORAGE_ERRORS = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.EISDIR,
    errno.ENOTEMPTY,
    errno.ENAMETOOLONG,
    errno.EBUSY,  # a folder that is itself a mount cannot be put in place as a whole
}
_REMEDY = "free space there or choose another folder with --out"


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn 'disk full' and 'not allowed' while writing to ``path`` into a StorageError that names it."""
    try:
        yield
    except OSError as error:
        if error.errno not in _STORAGE_ERRORS:
            raise
        raise StorageError(f"cannot write {path} ({error.strerror})", _REMEDY) from error


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; on success it becomes ``path``, on any failure it is removed."""
    path = Path(path)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            os.chmod(temporary, 0o666 & ~_umask())
            _sync(temporary)
            os.replace(temporary, path)
            _sync(path.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Give a temporary folder beside ``path``; on success it becomes ``path``, on any failure it is removed.

    ``path`` must not exist yet, or be an empty folder.
    """
    path = Path(path)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
        try:
            yield temporary
            os.chmod(temporary, 0o777 & ~_umask())
            os.replace(temporary, path)
            _sync(path.parent)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


@contextmanager
def replaced_folder(path: str | Path) -> Iterator[Path]:
    """Give the name of a folder to write beside ``path``; on success it takes the place of ``path``.

    For a moment nothing is under that name, as no folder can take another's place at once: what was there lies beside
    it until the new one stands.
    """
    path = Path(path)
    fresh, before = (path.with_name(f".{path.name}.{word}.part") for word in ("new", "before"))
    with storage_errors(path):
        for left_over in (fresh, before):
            shutil.rmtree(left_over, ignore_errors=True)
        try:
            yield fresh
            os.rename(path, before)
            try:
                os.rename(fresh, path)
            except BaseException:
                os.rename(before, path)
                raise
            _sync(path.parent)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(before, ignore_errors=True)


def check_free(folder: Path) -> None:
    """Refuse to write a folder where something is already."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise SettingsError(f"{folder} exists and is not an empty folder", "choose another --out or remove it first")


def write_text(path: str | Path, text: str) -> None:
    """Write ``text`` to ``path``, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, content: Any) -> None:
    """Write ``content`` as indented JSON, whole or not at all."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
