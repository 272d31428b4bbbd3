"""What lives as long as the process does, and the models that are swapped within it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time

from fastapi import Request

from capse.errors import CapseError, SettingsError
from capse.runs.folder import RunFolder
from capse.search.rankers.forgetting import forget_in_run, forget_in_versions, is_begun
from capse.service.batching import Batcher
from capse.service.fact_follower import FactFollower
from capse.service.guard import Guard
from capse.service.loaded_models import Models, without_paths
from capse.service.observe import Metrics
from capse.service.rates import Buckets
from capse.service.recording import Recorder
from capse.service.settings import ServiceSettings
from capse.service.shards import Shards
from capse.service.store import Store

log = logging.getLogger("capse.service")

_LOOKED_AT = 1.0  # seconds that what was found of the database is believed


def service_of(request: Request) -> Service:
    """The service that a request came to."""
    service: Service = request.app.state.service
    return service


class Service:
    """Everything that routes reach for, as ``request.app.state.service``."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        for run in settings.every_run:
            if is_begun(run):
                forget_in_run(run, lambda user: False)  # ends what was begun
        self.models = Models.load(settings.runs, settings.against, settings.shard)
        self.trial = settings.two_runs
        self.metrics.serving(self.models.fingerprints, {})
        self.shards = Shards(settings.shards) if settings.shards else None
        self.batcher = Batcher(settings.window, self.metrics.batch)
        self.store = self._open_store()
        self.recorder = self._recorder()
        self._catch_up(self.models)
        self.guard = Guard(self.store, require_keys=settings.needs_keys, rates=Buckets(settings.rates))
        self.large = asyncio.Semaphore(1)  # held by a large request while it is answered
        self.reload_error = ""  # why the last reload failed
        self._changing = threading.Lock()  # of models and reload_error: one changes them at a time
        self.fact_follower = self._follow_facts()
        self._looked: tuple[float, asyncio.Future[None]] | None = None  # at the database: when, and what was found

    def _open_store(self) -> Store | None:
        """The database where one is needed: for users' profiles, for facts or for keys."""
        if self.settings.facts and self.models.graph is None:
            raise SettingsError("--facts is given, but no graph run is served", "serve one, or leave it out")
        if self.models.search is None and not self.settings.facts and not self.settings.needs_keys:
            return None
        store = Store.open(self.settings.database)
        if self.settings.needs_keys and all(key.revoked for key in store.list_keys()):
            store.close()
            remedy = "make one with 'capse key add', or serve on 127.0.0.1 without --require-keys"
            raise SettingsError(f"{store.where} holds no API key", remedy)
        return store

    def _catch_up(self, models: Models) -> None:
        for model in models.searching:
            model.catch_up(self.require_store())

    def _recorder(self) -> Recorder | None:
        """Where lists are to be kept."""
        if not self.settings.keep_lists:
            return None
        if self.store is None or self.models.search is None:
            raise SettingsError("--keep-lists is given, but no search run is served", "serve one, or leave it out")
        return Recorder(self.store, self.settings, self.metrics)

    def _follow_facts(self) -> FactFollower | None:
        """Where facts are taken: they are known before the first answer, and those that others store soon after."""
        if not self.settings.facts:
            return None
        self.apply_facts()
        return FactFollower(self.apply_facts)

    def apply_facts(self) -> None:
        """Have the graph know all facts that are stored by now. Requests keep the model they began with."""
        with self._changing:
            before = self.models
            self.models = before.with_stored_facts(self.require_store())
            if self.models is not before:
                log.info("facts added", extra={"fields": {"serving": self.models.versions}})

    def require_store(self) -> Store:
        """Where profiles and facts are: there is one wherever a search run is served or facts are taken."""
        assert self.store is not None
        return self.store

    async def check_store(self) -> None:
        """A StoreError where the database cannot be used; those who ask within a second share one look at it."""
        if self.store is None:
            return
        if self._looked is None or (self._looked[1].done() and time.monotonic() > self._looked[0] + _LOOKED_AT):
            self._looked = time.monotonic(), asyncio.ensure_future(asyncio.to_thread(self.store.check))
        await asyncio.shield(self._looked[1])

    async def clean_runs(self) -> bool:
        """Take whoever was forgotten out of the files of the runs; False where they cannot be rewritten.

        Where somebody was in them the runs are loaded again, in every worker.
        """
        try:
            if await asyncio.to_thread(self._clean_runs):
                self.reload_soon()
                self.tell_other_workers()
            return True
        except CapseError as error:
            reason = without_paths(error, self.settings.every_run)
            log.error("a run names somebody who was forgotten", extra={"fields": {"reason": reason}})
            return False

    def _clean_runs(self) -> int:
        if self.store is None or self.models.search is None:
            return 0
        forgotten = self.store.forgotten()
        searched = [run for run in self.settings.every_run if RunFolder(run).vectors.is_dir()]
        return sum(forget_in_versions(run, forgotten) for run in searched)

    async def reload(self) -> bool:
        """Load the runs again beside those in service, and swap them; a damaged one changes nothing.

        Returns whether what is in service is what lies in the folders now. Requests keep the models they began with.
        """
        return await asyncio.to_thread(self._reload)

    def clean_soon(self) -> None:
        """`clean_runs`, when the service starts: a run from a backup may name who was forgotten since."""
        self._cleaning = asyncio.ensure_future(self.clean_runs())

    def reload_soon(self) -> None:
        """The same from a signal's handler, which cannot wait."""
        self._reloads = asyncio.ensure_future(self.reload())

    def tell_other_workers(self) -> None:
        """Have the supervisor tell every worker to reload; this one will find nothing to do."""
        if self.settings.workers > 1:
            os.kill(os.getppid(), signal.SIGHUP)

    def _reload(self) -> bool:
        with self._changing:
            before = self.models
            try:
                models = before.reloaded(self.settings.runs, self.settings.against, self.settings.shard)
                self._catch_up(models)
                if self.settings.facts:
                    models = models.with_stored_facts(self.require_store())
            except CapseError as error:
                self.reload_error = without_paths(error, self.settings.every_run)
                self.metrics.reloads.labels("failed").inc()
                log.error("reload failed", extra={"fields": {"reason": self.reload_error, "serving": before.versions}})
                return False
            self.models, self.reload_error = models, ""
            self.metrics.serving(models.fingerprints, before.fingerprints)
            self.metrics.reloads.labels("unchanged" if models is before else "done").inc()
            log.info("reloaded", extra={"fields": {"before": before.versions, "serving": models.versions}})
            return True

    def close(self) -> None:
        """Answer what waits, and let go of everything."""
        self.batcher.stop()
        self.guard.rates.close()
        if self.fact_follower is not None:
            self.fact_follower.close()
        if self.recorder is not None:
            self.recorder.close()
        if self.store is not None:
            self.store.close()
