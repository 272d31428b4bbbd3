"""Which log a run was trained on: a run evaluated on another would be judged by what it may have learned."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from capse.errors import RunError, SettingsError
from capse.runs.atomic import write_json
from capse.search.logs.search_log import SearchLog

FILE = "log.json"  # in the run


def identity(log: SearchLog) -> bytes:
    """A short text that changes with anything that a run learns from a log."""
    digest = hashlib.sha256()
    for labels in (log.users, log.queries, log.documents.ids, log.documents.titles):
        digest.update("\n".join(labels).encode())
    columns = (log.time, log.user, log.session, log.query, log.split, log.offsets, log.document, log.position)
    for column in (*columns, log.clicked_at, log.satisfied):
        digest.update(np.ascontiguousarray(column).tobytes())
    if len(log.actions):
        digest.update(np.stack(list(vars(log.actions).values())).tobytes())
    if log.reranked is not None:
        digest.update(log.reranked.tobytes())
    for part in log.fields.content():
        digest.update(part)
    return digest.hexdigest()[:16].encode()


def write_identity(run: Path, log: SearchLog) -> None:
    write_json(run / FILE, {"name": log.name, "fingerprint": identity(log).decode()})


def stored_identity(run: Path) -> bytes:
    stored: str = _stored(run)["fingerprint"]
    return stored.encode()


def require_same_log(run: Path, log: SearchLog) -> None:
    """Refuse a log that a run was not trained on; a run of trees from before they said so is taken as it is."""
    if (run / FILE).is_file() and stored_identity(run) != identity(log):
        raise SettingsError(
            f"{run} was trained on another log ({_stored(run)['name']!r}) than the one that is given ({log.name!r})",
            "give the log that it was trained on, as it was then, or train a run on this one",
        )


def _stored(run: Path) -> dict[str, Any]:
    try:
        content = json.loads((run / FILE).read_text(encoding="utf-8"))
        return {name: str(content[name]) for name in ("name", "fingerprint")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{run / FILE} is missing or damaged", "train the run again") from error
