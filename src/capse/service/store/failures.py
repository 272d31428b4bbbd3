"""What a database says when it fails, in words that tell an operator what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import exc

from capse.errors import StoreError, StoreFailure

_WORDS: dict[StoreFailure, tuple[str, str]] = {
    "gone": ("cannot be reached", "see that it is there and running; what was acknowledged is safe"),
    "busy": ("is busy", "try again; if it lasts, look for a program that holds a lock on it"),
    "full": ("has no space left", "free space on its disk; nothing of the request was stored"),
    "damaged": ("is damaged", "stop the service and restore the database from a backup"),
    "refused": ("refuses the service", "see that its owner, password and permissions allow reading and writing"),
}

_SQLITE: dict[str, StoreFailure] = {
    "SQLITE_FULL": "full",
    "SQLITE_BUSY": "busy",
    "SQLITE_LOCKED": "busy",
    "SQLITE_PROTOCOL": "busy",
    "SQLITE_CORRUPT": "damaged",
    "SQLITE_NOTADB": "damaged",
    "SQLITE_CANTOPEN": "gone",
    "SQLITE_IOERR_SHMSIZE": "full",  # no space for the log's index
    "SQLITE_IOERR": "gone",
    "SQLITE_READONLY": "refused",
    "SQLITE_PERM": "refused",
    "SQLITE_AUTH": "refused",
}

# https://www.postgresql.org/docs/current/errcodes-appendix.html, the longest prefix first
_POSTGRESQL: dict[str, StoreFailure] = {
    "53100": "full",
    "53": "busy",
    "55P03": "busy",
    "40": "busy",
    "57014": "busy",
    "57P": "gone",
    "08": "gone",
    "58": "gone",
    "3D000": "gone",
    "XX001": "damaged",
    "XX002": "damaged",
    "42P01": "damaged",
    "25006": "refused",
    "3F000": "refused",
    "28": "refused",
    "42501": "refused",
}


def failure(error: BaseException) -> StoreFailure | None:
    """What kind of failure an error of SQLAlchemy is; None for one that is our own fault."""
    if isinstance(error, exc.TimeoutError):  # no connection became free
        return "busy"
    if not isinstance(error, exc.DBAPIError) or error.orig is None:
        return None
    if isinstance(error.orig, sqlite3.Error):
        return _of_sqlite(error.orig)
    state = getattr(error.orig, "sqlstate", None)
    if state is None:  # no answer of a server: there is none
        return "gone" if isinstance(error, (exc.OperationalError, exc.InterfaceError)) else None
    return next((kind for prefix, kind in _POSTGRESQL.items() if state.startswith(prefix)), None)


def _of_sqlite(error: sqlite3.Error) -> StoreFailure | None:
    name: Any = getattr(error, "sqlite_errorname", None)
    if name is None:
        return None
    if name == "SQLITE_ERROR" and "no such table" in str(error):
        return "damaged"
    return _SQLITE.get(name) or _SQLITE.get("_".join(name.split("_")[:2]))


def store_error(kind: StoreFailure, where: str, detail: str = "") -> StoreError:
    """The error of a kind, for the database at ``where``."""
    what, remedy = _WORDS[kind]
    return StoreError(kind, f"the database {where} {what}{f' ({detail})' if detail else ''}", remedy)


@contextmanager
def store_errors(where: str) -> Iterator[None]:
    """Turn what a database says when it fails into a StoreError; other errors pass."""
    try:
        yield
    except exc.SQLAlchemyError as error:
        kind = failure(error)
        if kind is None:
            raise
        original = getattr(error, "orig", None)
        detail = str(original).strip().splitlines()[0] if original is not None and str(original).strip() else ""
        raise store_error(kind, where, detail) from error
