"""Fetching an archive, or plain files, so that an interrupted download goes on where it stopped."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from capse.errors import DownloadError
from capse.graph.trust import FirstUse
from capse.runs.atomic import atomic_folder, storage_errors

_TIMEOUT = 30  # seconds without an answer
_CHUNK = 1 << 16  # bytes


@dataclass(frozen=True)
class Source:
    """An archive, or a folder of plain files, and what is taken from it."""

    url: str  # a folder's ends in /
    sha256: tuple[str, ...]  # of the archive or of each file; empty where they are not known
    members: tuple[str, ...]  # paths in it
    files: tuple[str, ...]  # what they are called here

    def downloads(self) -> list[str]:
        """What has to be fetched."""
        return [self.url + member for member in self.members] if self.url.endswith("/") else [self.url]


def fetch_folder(source: Source, folder: Path, first_use: FirstUse) -> None:
    """Download a source and make ``folder`` of its members, whole or not at all.

    What arrives is kept in .part files beside ``folder`` until it is complete and its checksum is right. Where no
    checksum is known, ``first_use`` says what it was before, and remembers it.
    """
    plain = source.url.endswith("/")
    whence = "there" if plain else "that archive"
    remedy = f"try again, or put {', '.join(source.files)} from {whence} into {folder}"
    parts = [_part(url, folder, plain) for url in source.downloads()]
    for url, part in zip(source.downloads(), parts, strict=True):
        _fetch(url, part, remedy)
    digests = [_sha256(part) for part in parts]
    try:
        if source.sha256 and digests != list(source.sha256):
            wrong = next(u for u, d, s in zip(source.downloads(), digests, source.sha256, strict=True) if d != s)
            what = "file" if plain else "archive"
            raise DownloadError(f"{wrong} is not the expected {what} (its sha256 differs)", remedy)
        if not source.sha256:
            first_use.check(digests, source.url)
    except DownloadError:
        for part in parts:
            part.unlink()
        raise
    with atomic_folder(folder) as temporary:
        if plain:
            for part, file in zip(parts, source.files, strict=True):
                shutil.copyfile(part, temporary / file)
        else:
            _extract(parts[0], dict(zip(source.members, source.files, strict=True)), temporary)
    if not source.sha256:
        first_use.remember(digests, source.url)
    for part in parts:
        part.unlink()


def _part(url: str, folder: Path, plain: bool) -> Path:
    """Where a download is kept until it is complete; plain files of several datasets have the same names."""
    name = url.rpartition("/")[2]
    return folder.with_name(f"{folder.name}-{name}.part" if plain else f"{name}.part")


def _fetch(url: str, part: Path, remedy: str) -> None:
    with storage_errors(part):
        part.parent.mkdir(parents=True, exist_ok=True)
    try:
        _resume(url, part)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise DownloadError(f"cannot download {url} ({reason})", remedy) from error


def _resume(url: str, part: Path) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # nothing is missing
        raise
    with response:
        if response.status != http.client.PARTIAL_CONTENT:
            have = 0
        missing = int(response.headers.get("Content-Length", 0))
        received = 0
        with (
            storage_errors(part),
            part.open("ab" if have else "wb") as file,
            _progress(url, have, have + missing) as advance,
        ):
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                received += len(chunk)
                advance(len(chunk))
        if received < missing:
            raise ConnectionError(f"the connection ended after {have + received:,} of {have + missing:,} bytes")


@contextmanager
def _progress(url: str, have: int, total: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(url.rpartition("/")[2], completed=have, total=total or None)
        yield lambda count: progress.advance(task, count)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _extract(archive: Path, members: Mapping[str, str], folder: Path) -> None:
    # Only the known names are looked up and only their bytes are copied: no path in the archive is ever used.
    with _opened(archive) as tar:
        for member, name in members.items():
            content = tar.extractfile(member) if member in tar.getnames() else None
            if content is None:
                raise DownloadError(f"{archive}: no file {member} in it", "remove the archive and try again")
            with content, (folder / name).open("wb") as file:
                while chunk := content.read(_CHUNK):
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())


def _opened(archive: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(archive)
    except tarfile.TarError as error:  # only where no checksum told that it is something else
        archive.unlink()
        raise DownloadError(f"{archive.stem} is no archive", "see in a browser what is served there now") from error
