"""What the service is told when it starts."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from capse.errors import SettingsError
from capse.service.limits import MAX_DAYS


@dataclass(frozen=True)
class ServiceSettings:
    """What `capse serve` is told."""

    runs: tuple[str, ...]  # folders: a graph run, a search run, or one of each
    host: str = "127.0.0.1"  # the address to listen on
    port: int = 8000  # 0 takes any that is free
    database: str = (
        "capse.db"  # of events, profiles, facts and keys: a file for SQLite, or a URL; made when it is needed
    )
    workers: int = 1  # processes
    require_keys: bool = False  # refuse requests without an API key, on a loopback address too
    log_level: str = "info"  # debug, info, warning or error
    facts: bool = False  # take new facts of the graph, and apply those that are stored
    keep_lists: float = (
        0.0  # days that what was ranked is kept to be learned from: query, documents, order; 0: not at all
    )
    keep_texts: float = 0.0  # days that the documents' texts which came with it are kept
    window: float = 0.002  # seconds that a question waits for others to be scored with it
    rates: Path | None = None  # the file where several workers count requests; the supervisor's

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise SettingsError(f"--workers is {self.workers}", "start 1 or more")
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"--port is {self.port}", "choose one from 1 to 65535")
        for option, days in (("--keep-lists", self.keep_lists), ("--keep-texts", self.keep_texts)):
            if not 0 <= days <= MAX_DAYS:
                raise SettingsError(f"{option} is {days:g}", f"give days, up to {MAX_DAYS:,}; 0 keeps nothing")
        if self.keep_texts and not self.keep_lists:
            raise SettingsError("--keep-texts is given without --keep-lists", "texts are kept with lists: give both")

    @property
    def needs_keys(self) -> bool:
        """Whoever can be reached from other machines asks for keys."""
        return self.require_keys or not is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
