"""What the service is told when it starts."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from capse.errors import SettingsError
from capse.service.limits import MAX_DAYS, MAX_ID
from capse.service.trial import Trial


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
    against: str | None = None  # a second search run, that ranks for a share of users beside the first
    share: float = 0.5  # of users whom it ranks for
    interleave: bool = False  # instead, both rank every list, in one order
    trial: str = "trial"  # the name under which lists are kept that say which run is better
    shard: tuple[int, int] | None = None  # which share of the entities alone may answer, from 0, of how many
    shards: tuple[str, ...] = ()  # addresses of services that do, in their order, whose answers are merged
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
        if self.against is not None:
            self._check_trial()
        elif self.interleave:
            raise SettingsError("--interleave is given without --against", "name the other run: --against RUN")

        if self.shard is not None or self.shards:
            self._check_shards()

    def _check_shards(self) -> None:
        if self.shard is not None and self.shards:
            raise SettingsError("--shard and --shards are given", "a service is a shard or asks shards: give one")
        if self.facts:
            raise SettingsError("--facts is given with shards", "shards know the run's own facts alone: leave it out")
        for address in self.shards:
            if not _is_address(address):
                raise SettingsError(f"--shards is {address!r}", "give addresses, such as http://127.0.0.1:8001")

    def _check_trial(self) -> None:
        if not self.keep_lists:
            raise SettingsError(
                "--against is given without --keep-lists", "lists say which run is better: give --keep-lists DAYS"
            )
        if not 0 < self.share < 1:
            raise SettingsError(f"--share is {self.share:g}", "write a share of users between 0 and 1, such as 0.5")
        if not 0 < len(self.trial) <= MAX_ID:
            raise SettingsError(f"--trial has {len(self.trial)} characters", f"give 1 to {MAX_ID}")

    @property
    def two_runs(self) -> Trial | None:
        """Where a second search run is served."""
        return None if self.against is None else Trial(self.trial, self.share, self.interleave)

    @property
    def every_run(self) -> tuple[str, ...]:
        """All folders that are served from."""
        return self.runs if self.against is None else (*self.runs, self.against)

    @property
    def needs_keys(self) -> bool:
        """Whoever can be reached from other machines asks for keys."""
        return self.require_keys or not is_loopback(self.host)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of brackets that do not close, or of a port that is no port
        return False


def shard_of(text: str) -> tuple[int, int]:
    """Which of how many shards, from 0.

    >>> shard_of("2/3")
    (1, 3)
    """
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise SettingsError(f"--shard is {text!r}", "write which of how many, such as 1/3")
    return int(number) - 1, int(count)


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
