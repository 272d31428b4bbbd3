"""What the service is told when it starts, and the limits on what it accepts."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import asdict, dataclass

from capse.errors import SettingsError

MAX_BODY = 4 * 2**20  # bytes of a request's body
MAX_HEADERS = 32 * 2**10  # bytes of a request's line and headers
HEADER_SECONDS = 10.0  # for them to arrive
BODY_SECONDS = 20.0  # for the body to arrive
READ_SECONDS = 20.0  # for a client to read on when it has stopped reading an answer
MAX_TEXT = 1_000  # characters of a label, a name or a search query
MAX_ID = 200  # characters of the id of a user, session, document or event
MAX_DOCUMENT = 10_000  # characters of a document's text
MAX_TOP = 1_000  # answers to one question
MAX_QUERIES = 256  # questions in one request
MAX_ANSWERS = 20_000  # answers in one response
MAX_TRIPLES = 5_000  # triples to score in one request
MAX_DOCUMENTS = 200  # documents to re-rank in one request
MAX_LISTS = 64  # lists to re-rank in one request
MAX_EVENTS = 1_000  # events in one request
MAX_SHOWN = 1_000  # documents of an impression
MAX_WAITING = 4_096  # questions that may wait to be scored
MAX_CONNECTIONS = 2_000  # at a time, in each worker
THREADS = 32  # that may wait for the database, in each worker: those that add events share a transaction
SHUTDOWN_SECONDS = 30  # for requests in flight when the service is told to stop


@dataclass(frozen=True)
class ServiceSettings:
    """What `capse serve` is told."""

    runs: tuple[str, ...]  # folders: a graph run, a search run, or one of each
    host: str = "127.0.0.1"  # the address to listen on
    port: int = 8000  # 0 takes any that is free
    database: str = "capse.db"  # of events, profiles and keys: a file for SQLite, or a URL; made when it is needed
    workers: int = 1  # processes
    require_keys: bool = False  # refuse requests without an API key, on a loopback address too
    log_level: str = "info"  # debug, info, warning or error
    window: float = 0.002  # seconds that a question waits for others to be scored with it

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise SettingsError(f"--workers is {self.workers}", "start 1 or more")
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"--port is {self.port}", "choose one from 1 to 65535")

    @property
    def needs_keys(self) -> bool:
        """Whoever can be reached from other machines asks for keys."""
        return self.require_keys or not is_loopback(self.host)

    def to_text(self) -> str:
        """For the environment of worker processes."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> ServiceSettings:
        values = json.loads(text)
        return cls(**{**values, "runs": tuple(values["runs"])})


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
