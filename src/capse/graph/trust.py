"""Trust on first use: what was downloaded once, where no checksum is known, is what it has to be the next time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from capse.errors import DownloadError
from capse.runs.atomic import write_json


@dataclass(frozen=True)
class FirstUse:
    """The entry of one dataset in a file of remembered checksums."""

    file: Path
    name: str

    @property
    def remembered(self) -> dict[str, Any] | None:
        """``sha256`` (a list) and ``since`` of the first download; None before it."""
        return self._entries().get(self.name)

    def check(self, sha256: Sequence[str], url: str) -> None:
        """Refuse other bytes than those of the first download."""
        before = self.remembered
        if before is not None and before["sha256"] != list(sha256):
            raise DownloadError(
                f"{url} is not what it was on {before['since'][:10]}, when its checksum was first seen",
                f"find out why; to trust it anew, remove {self.name!r} from {self.file}",
            )

    def remember(self, sha256: Sequence[str], url: str) -> None:
        """Keep the checksums of the first download."""
        if self.remembered is None:
            entry = {"sha256": list(sha256), "url": url, "since": datetime.now(UTC).isoformat(timespec="seconds")}
            write_json(self.file, self._entries() | {self.name: entry})

    def _entries(self) -> dict[str, dict[str, Any]]:
        if not self.file.is_file():
            return {}
        try:
            entries: dict[str, dict[str, Any]] = json.loads(self.file.read_text(encoding="utf-8"))
            assert all({"sha256", "since"} <= set(entry) for entry in entries.values())
        except (OSError, ValueError, AttributeError, TypeError, AssertionError) as error:
            raise DownloadError(
                f"{self.file} is damaged", "restore it, or remove it to trust downloads anew"
            ) from error
        return entries
