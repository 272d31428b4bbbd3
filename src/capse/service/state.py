"""What lives as long as the process does, and the models that are swapped within it."""

from __future__ import annotations

import asyncio
import logging
import threading

from capse.errors import CapseError
from capse.service.batching import Batcher
from capse.service.guard import Guard
from capse.service.models import Models, without_paths
from capse.service.observe import Metrics
from capse.service.settings import ServiceSettings

log = logging.getLogger("capse.service")


class Service:
    """Everything that routes reach for, as ``request.app.state.service``."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.models = Models.load(settings.runs)
        self.metrics.serving(self.models.versions, {})
        self.batcher = Batcher(settings.window, self.metrics.batch)
        self.guard = Guard(settings.require_keys)
        self.trouble = ""  # why the last attempt to load the runs anew failed
        self._reloading = threading.Lock()

    async def reload(self) -> bool:
        """Load the runs anew beside those in service, and swap them; a damaged one changes nothing.

        Returns whether what is in service is what lies in the folders now. Requests keep the models they began with.
        """
        return await asyncio.to_thread(self._reload)

    def reload_soon(self) -> None:
        """The same from a signal's handler, which cannot wait."""
        self._reloads = asyncio.ensure_future(self.reload())

    def _reload(self) -> bool:
        with self._reloading:
            before = self.models
            try:
                models = before.loaded_anew(self.settings.runs)
            except CapseError as error:
                self.trouble = without_paths(error, self.settings.runs)
                self.metrics.reloads.labels("failed").inc()
                log.error("reload failed", extra={"fields": {"reason": self.trouble, "serving": before.versions}})
                return False
            self.models, self.trouble = models, ""
            self.metrics.serving(models.versions, before.versions)
            self.metrics.reloads.labels("unchanged" if models is before else "done").inc()
            log.info("reloaded", extra={"fields": {"before": before.versions, "serving": models.versions}})
            return True

    def close(self) -> None:
        """Answer what waits, and let go of everything."""
        self.batcher.stop()
