"""Stop after some minutes as Ctrl-C would, for machines that give a command only so long."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupted_after(minutes: float | None) -> Iterator[None]:
    """Raise KeyboardInterrupt in the block once so long has passed, at the next step; never with None.

    In the background of a shell SIGINT is ignored: here it counts all the same.
    """
    if minutes is None:
        yield
        return
    handlers = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGALRM: signal.signal(signal.SIGALRM, lambda number, frame: signal.raise_signal(signal.SIGINT)),
    }
    signal.setitimer(signal.ITIMER_REAL, max(60 * minutes, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in handlers.items():
            signal.signal(number, handler)
