"""Lists that are kept to be learned from: written together a moment later, so that nobody waits for it.

What waits is lost with the process: a list that was not kept teaches nothing, and nobody was told that it is kept.
"""

from __future__ import annotations

import logging
import threading
import time

from capse.errors import CapseError, StoreError
from capse.service.drift import ClickRanks
from capse.service.observe import Metrics
from capse.service.settings import ServiceSettings
from capse.service.store import KeptList, Store

log = logging.getLogger("capse.service")

_EVERY = 1.0  # seconds between two writes
_AT_ONCE = 500  # lists in one transaction
_WAITING = 10_000  # lists that may wait while the database is away; more are let go
_EXPIRE_EVERY = 600.0  # seconds between two looks for what is too old


class Recorder:
    """Keeps lists for `ServiceSettings.keep_lists` days and texts for ``keep_texts``, in a thread of its own."""

    def __init__(self, store: Store, settings: ServiceSettings, metrics: Metrics) -> None:
        self._store, self._settings, self._metrics = store, settings, metrics
        self.clicks = ClickRanks(store, metrics)
        self._waiting: list[KeptList] = []
        self._lock = threading.Lock()  # of what waits
        self._writing = threading.Lock()
        self._stopped = threading.Event()
        self._expired = -_EXPIRE_EVERY
        self._thread = threading.Thread(target=self._run, name="capse-recorder", daemon=True)
        self._thread.start()

    @property
    def keeps_texts(self) -> bool:
        return self._settings.keep_texts > 0

    def keep(self, kept: list[KeptList]) -> None:
        """Have lists written soon."""
        with self._lock:
            room = max(_WAITING - len(self._waiting), 0)
            self._waiting += kept[:room]
        self._metrics.lists.labels("lost").inc(len(kept[room:]))

    def write_now(self) -> None:
        """Write all that waits; where the database is away it waits on."""
        with self._writing:
            while part := self._waiting[:_AT_ONCE]:
                try:
                    self._metrics.lists.labels("kept").inc(self._store.keep_lists(part))
                except Exception as error:  # whatever it is, the lists that come after go on
                    log.error("lists are not kept", extra={"fields": {"error": type(error).__name__}})
                    if isinstance(error, StoreError) and error.temporary:
                        return
                    self._metrics.lists.labels("lost").inc(len(part))
                with self._lock:
                    del self._waiting[: len(part)]

    def expire(self) -> None:
        """Remove what was kept for long enough."""
        days = self._settings.keep_lists, self._settings.keep_texts
        gone, texts = self._store.expire_lists(time.time_ns() // 1_000, *days)
        if gone or texts:
            log.info("kept for long enough", extra={"fields": {"lists": gone, "texts": texts}})

    def close(self) -> None:
        """Write what waits, and stop."""
        self._stopped.set()
        self._thread.join()
        self.write_now()

    def _run(self) -> None:
        while not self._stopped.wait(_EVERY):
            self.write_now()
            self._count_clicks()
            if time.monotonic() > self._expired + _EXPIRE_EVERY:
                self._expired = time.monotonic()
                try:
                    self.expire()
                except CapseError as error:
                    log.error("what is too old stays", extra={"fields": {"reason": str(error)}})

    def _count_clicks(self) -> None:
        try:
            self.clicks.count()
        except CapseError as error:
            log.error("clicks are not counted by rank", extra={"fields": {"reason": str(error)}})
