"""Facts that other processes stored: looked for in a thread of its own, as nobody tells."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("capse.service")

EVERY = 0.5  # seconds between two looks


class FactFollower:
    """Applies what was stored until it is closed; where the database is away, once it is back."""

    def __init__(self, apply: Callable[[], None], every: float = EVERY) -> None:
        self._apply, self._every = apply, every
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="capse-facts", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            try:
                self._apply()
            except Exception as error:  # whatever it is, facts that come after go on
                log.error("facts are not applied", extra={"fields": {"error": type(error).__name__}})
