"""``manifest.json``: size and SHA-256 of every file that a run is made of.

It is written with the first files of a run; what comes later is entered once it is whole. So whenever a run is killed,
every entry is true, and a file without one was not finished. Runs of format 1 have no manifest: nothing is checked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from capse.errors import RunError
from capse.runs.atomic import write_text

MANIFEST = "manifest.json"
UNFINISHED = ".forgetting"  # says whom a run is being rewritten without
# What changes without being entered: checkpoints have checksums of their own, the rest is written by others.
_LEFT_OUT = {MANIFEST, UNFINISHED, "checkpoints", "tensorboard", "tracking", "study.db"}
_REMEDY = "restore the run from a copy, or train it again"

Entry = dict[str, Any]


def write_manifest(folder: Path) -> None:
    """Enter all that lies in a folder."""
    names = [file.relative_to(folder) for file in folder.rglob("*") if file.is_file()]
    _write(folder, {name.as_posix(): _entry(folder / name) for name in names if _LEFT_OUT.isdisjoint(name.parts)})


def is_whole(folder: Path, file: Path) -> bool:
    """Whether a file exists and was written to its end: it has an entry, or there is no manifest."""
    entries = _read(folder)
    return file.is_file() and (entries is None or file.relative_to(folder).as_posix() in entries)


@contextmanager
def entering(folder: Path, *files: Path) -> Iterator[None]:
    """Write files, new or anew, and enter those that are there then. A kill in between leaves them without an entry."""
    names = {file.relative_to(folder).as_posix(): file for file in files}
    entries = _read(folder)
    if entries is not None and not names.keys().isdisjoint(entries):
        _write(folder, {name: entry for name, entry in entries.items() if name not in names})
    yield
    if (entries := _read(folder)) is not None:  # others may have been entered meanwhile
        _write(folder, entries | {name: _entry(file) for name, file in names.items() if file.is_file()})


def check_file(folder: Path, file: Path) -> None:
    """Refuse a file that is not the one that was entered."""
    name = file.relative_to(folder).as_posix()
    if (entries := _read(folder)) is not None and name in entries:
        _check(file, entries[name])


def check_files(folder: Path, *, required: bool, but: Collection[Path] = ()) -> None:
    """Refuse a run with a file that is not the one that was entered, or without a manifest if one is ``required``."""
    entries = _read(folder)
    if entries is None and required:
        raise RunError(f"{folder / MANIFEST} is missing", _REMEDY)
    for name, entry in sorted((entries or {}).items()):
        if folder / name not in but:
            _check(folder / name, entry)


def _check(file: Path, entry: Entry) -> None:
    try:
        same = file.stat().st_size == entry["size"] and _entry(file) == entry
    except FileNotFoundError as error:
        raise RunError(f"{file} is missing", _REMEDY) from error
    except OSError as error:
        raise RunError(f"{file} cannot be read ({error.strerror})", "check its permissions") from error
    if not same:
        raise RunError(f"{file} is damaged: it is not what was written", _REMEDY)


def _entry(file: Path) -> Entry:
    with file.open("rb") as stream:
        return {"sha256": hashlib.file_digest(stream, "sha256").hexdigest(), "size": stream.tell()}


def _text(entries: dict[str, Entry]) -> str:
    """The manifest, which ends with the digest of its own entries."""
    files = {name: entries[name] for name in sorted(entries)}
    digest = hashlib.sha256(json.dumps(files).encode()).hexdigest()
    return json.dumps({"files": files, "sha256": digest}, indent=2) + "\n"


def _write(folder: Path, entries: dict[str, Entry]) -> None:
    write_text(folder / MANIFEST, _text(entries))


def _read(folder: Path) -> dict[str, Entry] | None:
    path = folder / MANIFEST
    try:
        text = path.read_bytes().decode()
        entries: dict[str, Entry] = json.loads(text)["files"]
        whole = text == _text(entries)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        whole = False
    if not whole:
        raise RunError(f"{path} is damaged", _REMEDY)
    return entries
