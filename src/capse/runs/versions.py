"""Versions of a run, of which one is in service: folders in ``NAME.versions/``, and NAME, a link to one of them.

The link is replaced in one step, so whoever opens NAME finds one version or another, and always a whole one. What was
decided is written down in ``NAME.versions/history.jsonl``.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Any

from capse.errors import RunError
from capse.runs.atomic import storage_errors

_HISTORY = "history.jsonl"


class Versions:
    """Those of the run that is served under a name."""

    def __init__(self, run: str | Path) -> None:
        run = Path(run)
        self.run = run.parent.resolve() / run.name  # the link itself, not what it leads to
        self.folder = self.run.with_name(f"{self.run.name}.versions")

    @contextmanager
    def held(self) -> Iterator[None]:
        """One process at a time changes them."""
        with storage_errors(self.folder):
            self.folder.mkdir(exist_ok=True)
            handle = os.open(self.folder, os.O_RDONLY)
        try:
            try:
                flock(handle, LOCK_EX | LOCK_NB)
            except BlockingIOError as error:
                raise RunError(f"another process changes {self.folder}", "wait until it is done") from error
            yield
        finally:
            os.close(handle)

    def names(self) -> list[str]:
        """The oldest first."""
        return sorted(path.name for path in self.folder.glob("[0-9]" * 4) if path.is_dir())

    @property
    def current(self) -> str | None:
        """The one in service; None while NAME is a plain folder."""
        return self.run.resolve().name if self.run.is_symlink() else None

    def next_path(self) -> Path:
        """Where a new version is to be written."""
        used = [int(name) for name in self.names()] + [int(line["version"]) for line in self.history()]
        return self.folder / f"{max(used, default=0) + 1:04}"

    def adopt(self) -> None:
        """Make a plain run the first version, and NAME a link to it."""
        if self.current is not None:
            return
        path = self.next_path()
        with storage_errors(self.run):
            os.rename(self.run, path)
            os.symlink(self._target(path), self.run)
        self.note(path.name, "adopted")

    def put_in_service(self, version: str, why: str, **about: Any) -> None:
        """Let NAME lead to a version."""
        path = self.folder / version
        if version not in self.names():
            kept = ", ".join(self.names()) or "none"
            raise RunError(f"there is no version {version!r} of {self.run}", f"kept are {kept}")
        fresh = self.run.with_name(f".{self.run.name}.link.part")
        with storage_errors(self.run):
            fresh.unlink(missing_ok=True)
            os.symlink(self._target(path), fresh)
            os.replace(fresh, self.run)
        self.note(version, why, **about)

    def before(self) -> str:
        """The version that was in service before the current one, among those that are kept."""
        served = [line["version"] for line in self.history() if line["what"] in ("adopted", "handed over")]
        earlier = [version for version in served if version in self.names() and version < (self.current or "")]
        if not earlier:
            raise RunError(f"{self.run} has no earlier version", "name one that is kept with --to")
        return str(earlier[-1])

    def keep(self, most: int) -> list[str]:
        """Remove all but so many versions, the newest; never the one in service. Returns which were removed."""
        gone = [name for name in self.names() if name != self.current][: max(len(self.names()) - most, 0)]
        for name in gone:
            shutil.rmtree(self.folder / name)
        return gone

    def withdraw(self, version: str) -> None:
        """Take a version away that must not be served again, even where its files cannot be removed."""
        path = self.folder / version
        withdrawn = path.with_name(f"{version}.withdrawn")
        with storage_errors(self.folder):
            os.rename(path, withdrawn)
        self.note(version, "withdrawn")
        shutil.rmtree(withdrawn, ignore_errors=True)

    def history(self) -> list[dict[str, Any]]:
        """What was decided, the oldest first."""
        path = self.folder / _HISTORY
        if not path.is_file():
            return []
        try:
            return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        except ValueError as error:
            raise RunError(f"{path} is damaged", "remove its last line") from error

    def note(self, version: str, what: str, **about: Any) -> None:
        """Write a decision down."""
        line: Mapping[str, Any] = {"version": version, "what": what, "at": datetime.now(UTC).isoformat(), **about}
        with storage_errors(self.folder), (self.folder / _HISTORY).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def _target(self, version: Path) -> str:
        return f"{self.folder.name}/{version.name}"
