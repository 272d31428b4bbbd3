"""Connections to SQLite and PostgreSQL that lose nothing once a commit has returned.

SQLite: a write-ahead log, flushed to the disk at every commit (synchronous=FULL); writers queue from their first
statement on (BEGIN IMMEDIATE), so none reads what another is about to change; deleted content is overwritten
(secure_delete). PostgreSQL: synchronous_commit, whatever the server's default is.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, exc
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import NullPool, QueuePool

from capse.errors import SettingsError, StoreError

WAIT = 5.0  # seconds for a connection, a server's first word, or a lock there
FILE_WAIT = 30.0  # seconds for SQLite's one lock: longer, as a deletion rewrites the whole file under it
_RETRY = 0.001  # seconds between two looks at that
_POOL = {"pool_size": 8, "max_overflow": 56, "pool_timeout": WAIT, "hide_parameters": True}  # parameters are personal
_REMEDY = "give a file for SQLite, or postgresql://user:password@host/database"


def database_url(text: str) -> URL:
    """A URL, or the path of an SQLite file.

    >>> print(database_url("data/capse.db"), database_url("postgresql://ada@localhost/capse"))
    sqlite:///data/capse.db postgresql+psycopg://ada@localhost/capse
    """
    try:
        url = make_url(text) if "://" in text else URL.create("sqlite", database=text)
    except exc.ArgumentError as error:
        raise SettingsError("the database's URL cannot be read", _REMEDY) from error
    backend = url.get_backend_name()
    if backend == "sqlite":
        if not url.database or ":memory:" in url.database or url.query:
            raise SettingsError(f"{shown(url)} names no plain file", _REMEDY)
        return url.set(drivername="sqlite")
    if backend in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    raise SettingsError(f"there is no support for {backend} databases", _REMEDY)


def shown(url: URL) -> str:
    """A database's name for messages: the file, or the URL without its password."""
    return url.database or "" if url.drivername == "sqlite" else url.render_as_string(hide_password=True)


def make_engine(url: URL) -> Engine:
    """A pool of connections, each checked before it is used: a database that was away is found again by itself."""
    if url.drivername == "sqlite":
        return _sqlite(Path(url.database or "").absolute())
    return _postgresql(url, pool_pre_ping=True, **_POOL)


def make_checking_engine(url: URL) -> Engine:
    """A connection of its own for every use, which remembers nothing of the database as it was."""
    if url.drivername == "sqlite":
        path = Path(url.database or "").absolute()
        return create_engine("sqlite://", creator=lambda: _connect(path, WAIT), poolclass=NullPool)
    return _postgresql(url, poolclass=NullPool)


def _postgresql(url: URL, **options: Any) -> Engine:
    engine = create_engine(url, connect_args={"connect_timeout": int(WAIT)}, **options)

    @event.listens_for(engine, "connect")
    def settings(connection: Any, _record: Any) -> None:
        connection.execute("SET synchronous_commit = on")
        connection.execute(f"SET lock_timeout = {int(1000 * WAIT)}")
        connection.commit()

    return engine


def _connect(path: Path, wait: float) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, timeout=wait, isolation_level=None, check_same_thread=False
    )


def _sqlite(path: Path) -> Engine:
    def connect() -> sqlite3.Connection:
        connection = _connect(path, FILE_WAIT)
        try:
            _switch_to_wal(connection)
            for pragma in ("synchronous=FULL", "fullfsync=ON", "secure_delete=ON", "foreign_keys=ON"):
                connection.execute(f"PRAGMA {pragma}").close()
        except BaseException:
            connection.close()
            raise
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool, **_POOL)

    @event.listens_for(engine, "connect")
    def remember(_connection: Any, record: Any) -> None:
        record.info["file"] = _identity(path)

    @event.listens_for(engine, "checkout")
    def check(_connection: Any, record: Any, _proxy: Any) -> None:
        """Without it, a connection would go on writing into a file that was deleted or replaced."""
        if record.info["file"] is None or _identity(path) != record.info["file"]:
            raise exc.InvalidatePoolError()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get("writes"):
            driver = connection.connection.driver_connection
            assert isinstance(driver, sqlite3.Connection)
            try:
                _begin_writing(driver)
            except sqlite3.Error as error:
                raise exc.OperationalError("BEGIN IMMEDIATE", None, error) from error

    return engine


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that writes: committed and on disk when it ends, or undone."""
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        yield connection


@contextmanager
def snapshot(engine: Engine) -> Iterator[Connection]:
    """Reads that all see one moment, without keeping anybody from writing."""
    begin = "BEGIN" if engine.dialect.name == "sqlite" else "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
    with engine.connect() as connection:
        connection.exec_driver_sql(begin)
        yield connection


def create_file(path: Path) -> None:
    """An empty database file that only its owner may read, its name on disk."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:  # opening an existing one here would drop the locks of this process on it
        return
    except OSError as error:
        remedy = "make its folder, or choose another place"
        raise StoreError("refused", f"cannot make the database {path} ({error.strerror})", remedy) from error
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """SQLite does not wait here for others that do the same, so we do."""
    _patiently(lambda: connection.execute("PRAGMA journal_mode=WAL").close())


def _begin_writing(connection: sqlite3.Connection) -> None:
    """SQLite would look for the lock ever more rarely, and another process take it meanwhile, again and again."""
    connection.execute("PRAGMA busy_timeout=0").close()
    try:
        _patiently(lambda: connection.execute("BEGIN IMMEDIATE").close())
    finally:
        connection.execute(f"PRAGMA busy_timeout={int(1000 * FILE_WAIT)}").close()


def _patiently(step: Callable[[], None]) -> None:
    """Try until nobody is in the way."""
    deadline = time.monotonic() + FILE_WAIT
    while True:
        try:
            step()
            return
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
