"""How often a key may ask: buckets of tokens in a file that all workers share."""

from __future__ import annotations

import fcntl
import os
import struct
import tempfile
from pathlib import Path
from typing import BinaryIO

_BUCKET = struct.Struct("=dd")  # tokens, and when they were counted; zeros: nobody has asked yet


class Buckets:
    """A bucket for every key holds as many tokens as it may make requests a minute, and is filled in a minute.

    A request that costs more than a full bucket is let through by a full one, and the debt is waited for.

    >>> buckets = Buckets()
    >>> [buckets.take(1, most=2, now=now) for now in (1, 1, 1, 31)]
    [0.0, 0.0, 30.0, 0.0]
    >>> buckets.close()
    """

    def __init__(self, path: Path | None = None) -> None:
        if path is None:
            self._file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the service is
        else:
            path.touch(0o600)
            self._file = path.open("r+b")

    def take(self, key: int, most: float, now: float, cost: float = 1.0) -> float:
        """Take ``cost`` tokens of a key; where there are too few, the seconds until there are enough.

        The kernel lets go of the lock when a process dies, however it dies.
        """
        file, place = self._file.fileno(), key * _BUCKET.size
        fcntl.lockf(file, fcntl.LOCK_EX, _BUCKET.size, place)
        try:
            stored = os.pread(file, _BUCKET.size, place)
            tokens, at = _BUCKET.unpack(stored) if len(stored) == _BUCKET.size else (0.0, 0.0)
            tokens = most if at == 0 else min(most, tokens + max(0.0, now - at) * most / 60)
            wanted = min(cost, most)
            enough = tokens >= wanted
            os.pwrite(file, _BUCKET.pack(tokens - cost if enough else tokens, now), place)
        finally:
            fcntl.lockf(file, fcntl.LOCK_UN, _BUCKET.size, place)
        return 0.0 if enough else (wanted - tokens) * 60 / most

    def close(self) -> None:
        self._file.close()
