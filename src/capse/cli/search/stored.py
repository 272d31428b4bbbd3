"""The service's database, for the commands that learn from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from capse.service.stored_log import StoredLog


@contextmanager
def open_stored_log(database: str, since: str | None = None) -> Iterator[StoredLog]:
    """What the service stored, as a log source."""
    from capse.cli.key import open_store
    from capse.errors import SettingsError
    from capse.search.times import log_time

    first = log_time(since) if since else 0
    if first is None:
        raise SettingsError(f"--since is {since!r}", "write a date such as 2024-05-01, or seconds since 1970")
    with open_store(database) as store:
        from capse.service.stored_log import StoredLog

        yield StoredLog(store, first)
