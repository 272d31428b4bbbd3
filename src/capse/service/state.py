"""What lives as long as the process does, and the models that are swapped within it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading

from fastapi import Request

from capse.errors import CapseError, SettingsError
from capse.service.batching import Batcher
from capse.service.guard import Guard
from capse.service.loaded_models import Models, without_paths
from capse.service.observe import Metrics
from capse.service.settings import ServiceSettings
from capse.service.store import Event, State, Store

log = logging.getLogger("capse.service")


def service_of(request: Request) -> Service:
    """The service that a request came to."""
    service: Service = request.app.state.service
    return service


class Service:
    """Everything that routes reach for, as ``request.app.state.service``."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.models = Models.load(settings.runs)
        self.metrics.serving(self.models.versions, {})
        self.batcher = Batcher(settings.window, self.metrics.batch)
        self.store = self._open_store()
        self.guard = Guard(self.store, require_keys=settings.needs_keys, workers=settings.workers)
        self.reload_error = ""  # why the last reload failed
        self._reloading = threading.Lock()

    def _open_store(self) -> Store | None:
        """The database where one is needed: for users' profiles or for keys."""
        if self.models.search is None and not self.settings.needs_keys:
            return None
        store = Store.open(self.settings.database, self._fold)
        if self.settings.needs_keys and all(key.revoked for key in store.list_keys()):
            store.close()
            remedy = "make one with 'capse key add', or serve on 127.0.0.1 without --require-keys"
            raise SettingsError(f"{store.where} holds no API key", remedy)
        return store

    def _fold(self, state: State | None, event: Event) -> State | None:
        search = self.models.search
        return state if search is None else search.fold(state, event)

    def require_store(self) -> Store:
        """Where profiles are: there is one wherever a search run is served."""
        assert self.store is not None
        return self.store

    async def reload(self) -> bool:
        """Load the runs again beside those in service, and swap them; a damaged one changes nothing.

        Returns whether what is in service is what lies in the folders now. Requests keep the models they began with.
        """
        return await asyncio.to_thread(self._reload)

    def reload_soon(self) -> None:
        """The same from a signal's handler, which cannot wait."""
        self._reloads = asyncio.ensure_future(self.reload())

    def tell_other_workers(self) -> None:
        """Have the supervisor tell every worker to reload; this one will find nothing to do."""
        if self.settings.workers > 1:
            os.kill(os.getppid(), signal.SIGHUP)

    def _reload(self) -> bool:
        with self._reloading:
            before = self.models
            try:
                models = before.reloaded(self.settings.runs)
            except CapseError as error:
                self.reload_error = without_paths(error, self.settings.runs)
                self.metrics.reloads.labels("failed").inc()
                log.error("reload failed", extra={"fields": {"reason": self.reload_error, "serving": before.versions}})
                return False
            self.models, self.reload_error = models, ""
            self.metrics.serving(models.versions, before.versions)
            self.metrics.reloads.labels("unchanged" if models is before else "done").inc()
            log.info("reloaded", extra={"fields": {"before": before.versions, "serving": models.versions}})
            return True

    def close(self) -> None:
        """Answer what waits, and let go of everything."""
        self.batcher.stop()
        if self.store is not None:
            self.store.close()
