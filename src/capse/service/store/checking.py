"""Whether a database can be used: asked on a connection of its own, since open ones remember what they have read."""

from __future__ import annotations

import sqlite3
import time

from sqlalchemy import Connection, Engine, select

from capse.service.store.failures import store_error
from capse.service.store.schema import metadata

_STEPS = 20_000  # of SQLite's machine, between two looks at the clock


def check(engine: Engine, where: str, seconds: float | None) -> None:
    """Raise what `store_errors` understands, or a StoreError, where the database is gone, stopped or damaged.

    Of every table the last row is read. SQLite also looks through its pages, for at most so many ``seconds``: all of
    them take as long as reading the file. None: however long it takes.
    """
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            _check_pages(connection, where, seconds)
        for table in metadata.sorted_tables:
            connection.execute(select(table).order_by(*(key.desc() for key in table.primary_key)).limit(1)).all()


def _check_pages(connection: Connection, where: str, seconds: float | None) -> None:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    if seconds is not None:
        until = time.monotonic() + seconds
        driver.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        (found,) = driver.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname != "SQLITE_INTERRUPT":
            raise store_error("damaged", where, str(error)) from error
        return
    except sqlite3.DatabaseError as error:
        raise store_error("damaged", where, str(error)) from error
    finally:
        driver.set_progress_handler(None, _STEPS)
    if found != "ok":
        raise store_error("damaged", where, str(found).splitlines()[0])
