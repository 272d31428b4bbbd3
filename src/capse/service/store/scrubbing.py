"""Removing what SQLite leaves of deleted rows in its files.

secure_delete overwrites what is deleted, but copies remain: in the write-ahead log, which holds pages as they were
before, and in unused parts of pages, where rows lay before a page was split. So the file is rewritten from its rows
(VACUUM) and the log is emptied. How many deletions still wait for that is kept in the file, in SQLite's user_version:
it changes with the transaction that deletes, and a process that is killed in between leaves it for the next to see.
"""

from __future__ import annotations

from sqlalchemy import Connection, Engine, text

from capse.errors import StoreError
from capse.service.store.engine import writing


def mark_for_scrubbing(connection: Connection) -> None:
    """Note, in the transaction that deletes, that the files are to be rewritten."""
    if connection.dialect.name == "sqlite":
        connection.execute(text(f"PRAGMA user_version = {_waiting(connection) + 1}"))


def scrub(engine: Engine, where: str) -> None:
    """Rewrite the files, if deletions wait for it. PostgreSQL's files are its server's."""
    if engine.dialect.name != "sqlite":
        return
    with engine.connect() as connection:
        waiting = _waiting(connection)
        if not waiting:
            return
        connection.execute(text("VACUUM"))
        _empty_log(connection, where)
    with writing(engine) as connection:
        if _waiting(connection) == waiting:  # else there was another deletion, which still waits
            connection.execute(text("PRAGMA user_version = 0"))


def _waiting(connection: Connection) -> int:
    return int(connection.execute(text("PRAGMA user_version")).scalar_one())


def _empty_log(connection: Connection, where: str) -> None:
    busy, *_ = connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)")).one()  # waits for readers, but not for ever
    if busy:
        message = f"the user is deleted, but a reader keeps old pages in the log of {where}"
        raise StoreError("busy", message, "delete the user again")
