"""Fetching an archive so that an interrupted download goes on where it stopped."""

from __future__ import annotations

import hashlib
import http.client
import os
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from capse.errors import DownloadError
from capse.runs.atomic import atomic_folder, storage_errors

_TIMEOUT = 30  # seconds without an answer
_CHUNK = 1 << 16  # bytes


def fetch_folder(url: str, sha256: str, members: tuple[str, ...], folder: Path) -> None:
    """Download the archive at ``url`` and make ``folder`` of its ``members``, whole or not at all.

    What arrives is kept in a .part file beside ``folder`` until it is complete and its checksum is right.
    """
    part = folder.with_name(url.rpartition("/")[2] + ".part")
    with storage_errors(part):
        part.parent.mkdir(parents=True, exist_ok=True)
    remedy = f"try again, or put {', '.join(members)} from that archive into {folder}"
    try:
        _resume(url, part)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise DownloadError(f"cannot download {url} ({reason})", remedy) from error
    if _sha256(part) != sha256:
        part.unlink()
        raise DownloadError(f"{url} is not the expected archive (its sha256 differs)", remedy)
    with atomic_folder(folder) as temporary:
        _extract(part, members, temporary)
    part.unlink()


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


def _extract(archive: Path, members: tuple[str, ...], folder: Path) -> None:
    # Only the known names are looked up and only their bytes are copied: no path in the archive is ever used.
    with tarfile.open(archive) as tar:
        for member in members:
            content = tar.extractfile(member) if member in tar.getnames() else None
            if content is None:
                raise DownloadError(f"{archive}: no file {member} in it", "remove the archive and try again")
            with content, (folder / member).open("wb") as file:
                while chunk := content.read(_CHUNK):
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
