"""Ctrl-C that waits for a step to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def deferred_interrupt() -> Iterator[None]:
    """Hold back Ctrl-C until the block has ended, so that a step is done whole or not at all."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread gets signals
        return
    received: list[Any] = []
    previous = signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if received and callable(previous):
        previous(signal.SIGINT, None)  # by default KeyboardInterrupt is raised
    elif received:
        raise KeyboardInterrupt
