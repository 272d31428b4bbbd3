"""One engine for every run: its folder, from the first check to the results, whatever is trained in it.

Graph and search give it a recipe and bytes that identify the data, then a learner and a validator. All that settings of
``training`` and ``validation`` promise is kept here and in the trainer, for both.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from capse.errors import DivergenceError, RunError
from capse.experiments.base_recipe import BaseRecipe
from capse.experiments.listening import Listener as Listener
from capse.experiments.tensorboard import Board, require_tensorboard
from capse.processes.group import Group
from capse.runs.atomic import atomic_folder, write_json, write_text
from capse.runs.devices import choose_device
from capse.runs.folder import RunFolder, is_begun
from capse.runs.lock import only_trainer
from capse.runs.manifest import entering, write_manifest
from capse.runs.records import provenance
from capse.training.checkpoints import Checkpoints, RowsHere
from capse.training.learner import Learner
from capse.training.loop import StepReport as StepReport
from capse.training.loop import StopTraining as StopTraining
from capse.training.loop import Trainer, Validate

# Of training: where and by how many it is done, and what it leaves on the way.
_FREE = ("device", "checkpoint_seconds", "tensorboard", "parallel", "wait_seconds")


class RunEngine:
    """A run that is to be made, or gone on with, in a folder."""

    def __init__(
        self,
        out: str | Path | None,
        recipe: BaseRecipe,
        data: Iterable[bytes],
        *,
        resume: bool = False,
        listener: Listener | None = None,
        group: Group | None = None,
    ) -> None:
        """Checks the folder and what can be known of the settings; writes nothing. ``data`` identifies the data.

        All of a ``group`` come here and take the steps; the first of them writes and speaks.
        """
        self.recipe = recipe
        self.group = group or Group()
        self.listener = listener or Listener()
        if out is None and self.group.size > 1:
            raise RunError("several processes make a run, and no folder is named", "name one that all of them see")
        self.folder = RunFolder.temporary() if out is None else RunFolder(out)
        self.begun = is_begun(self.folder.path, self.folder.recipe, "run", resume)
        if self.begun:
            with self._held():  # said before anything long is done; `train` holds it
                self.folder.check_inputs()
        self.settings = self._stored_settings() if self.begun else recipe.to_mapping()
        self.checkpoints = Checkpoints(self.folder.checkpoints, fingerprint(self.settings, data), self.group)
        self.device = self.group.device(choose_device(recipe.training.device))
        if recipe.training.tensorboard:
            require_tensorboard()

    @property
    def continues(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        return self.begun and self.checkpoints.exists

    def check_data(self, stored: Iterable[bytes]) -> None:
        """Refuse data other than what the run was begun with, which ``stored`` identifies."""
        if fingerprint(self.settings, stored) != self.checkpoints.fingerprint:
            raise RunError(
                f"the run in {self.folder.path} was begun with other data called {self.recipe.data!r}",
                "resume it with the data it was begun with, or choose another --out",
            )

    def train(
        self,
        learner: Learner,
        validate: Validate | None,
        *,
        begin: Callable[[RunFolder], None],
        finish: Callable[[RunFolder], None],
        started: str = "",
        results: Mapping[str, Any] | None = None,
        rows: RowsHere | None = None,
    ) -> None:
        """Train to the end and leave a finished run.

        ``begin`` writes what a resumed run needs beside its recipe; ``finish``, called in every process, the trained
        model. ``started`` is a line about how, ``results`` go into the record; of ``rows`` of its state a process has
        some. What is wrong with the input has been said by now: until here nothing was written.
        """
        self.checkpoints.rows = rows if self.group.size > 1 else None
        self.group.wait()  # nobody has anything against it
        if not self.begun:
            self._begin(begin)
        try:
            with self._held(), self._listening(), self._recorded():
                self._train(learner, validate, finish, started, results or {})
        except DivergenceError as error:
            if self.begun or self.folder.read_metrics():
                again = f"{error.remedy}, and choose another --out: with --resume it would happen again"
                raise DivergenceError(error.message, again) from None
            if self.group.leads:
                shutil.rmtree(self.folder.path)  # not one epoch: there is nothing to keep, and the folder is free again
            raise

    def _begin(self, begin: Callable[[RunFolder], None]) -> None:
        if self.group.leads:
            with atomic_folder(self.folder.path) as temporary:
                begin(RunFolder(temporary))
                write_text(RunFolder(temporary).recipe, self.recipe.to_yaml())
                write_manifest(temporary)
        self.group.wait()
        if not self.folder.recipe.is_file():
            raise RunError(
                f"process {self.group.rank} does not see {self.folder.path}, which process 0 has written",
                "choose an --out on storage that all nodes share",
            )

    def _held(self) -> AbstractContextManager[None]:
        """The run, held by the process that writes it."""
        return only_trainer(self.folder) if self.group.leads else nullcontext()

    def _recorded(self) -> AbstractContextManager[None]:
        """The record is written from here on; at the end it is entered as what was written."""
        folder = self.folder
        return entering(folder.path, folder.metrics, folder.results) if self.group.leads else nullcontext()

    def _train(
        self,
        learner: Learner,
        validate: Validate | None,
        finish: Callable[[RunFolder], None],
        started: str,
        results: Mapping[str, Any],
    ) -> None:
        recipe, folder, leads = self.recipe, self.folder, self.group.leads
        if leads:
            folder.remove_leftovers()
        with self._recorder() as record:
            trainer = Trainer(
                learner,
                recipe.training,
                recipe.optimizer,
                recipe.validation,
                self.checkpoints,
                validate=validate,
                on_step=self.listener.step,
                on_epoch=record,
                group=self.group,
            )
            if self.continues:
                trainer.resume()
                started = f"resuming after epoch {trainer.position.epoch}, step {trainer.position.step}"
            if started:
                self.listener.message(started)
            was_finished = trainer.finished and folder.results.is_file()
            if leads:
                folder.keep_metrics_up_to(trainer.position.epoch)
            with self.group.stopping_together(), suppress(StopTraining), closing(trainer.run()) as epochs:
                for _ in epochs:
                    pass
        trainer.restore_best()
        finish(folder)
        if leads and not was_finished:  # else the record says when and where it was trained, and that stays true
            write_json(folder.results, {**self._results(trainer), **results, **provenance()})

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Tells the listener of the beginning and of the end, whatever the end is."""
        ended: dict[str, Any] | None = None
        if not self.group.leads:
            yield
            return
        self.listener.begin(self.folder.path, self.recipe.to_mapping())
        try:
            yield
            ended = json.loads(self.folder.results.read_text(encoding="utf-8"))
        finally:
            self.listener.end(ended)

    def _stored_settings(self) -> dict[str, Any]:
        """The settings of the run as they were written; refuses to go on with others."""
        stored = self.folder.stored_recipe()
        before, now = (binding(recipe.to_mapping()) for recipe in (self.recipe.from_mapping(stored), self.recipe))
        for section in now:
            if before[section] != now[section]:
                raise RunError(
                    f"the run in {self.folder.path} was begun with other settings in {section!r}",
                    "resume it with the recipe and options it was begun with, or choose another --out",
                )
        return stored

    @contextmanager
    def _recorder(self) -> Iterator[Callable[[dict[str, Any]], None]]:
        """Keeps the record of an epoch, and tells of it."""
        if not self.group.leads:
            yield lambda values: None
            return
        board = Board(self.folder.tensorboard) if self.recipe.training.tensorboard else None

        def record(values: dict[str, Any]) -> None:
            self.folder.append_metrics(values)
            self.listener.epoch(values)
            if board:
                board.add(values)

        try:
            yield record
        finally:
            if board:
                board.close()

    def _results(self, trainer: Trainer) -> dict[str, Any]:
        position, best = trainer.position, trainer.position.best_value
        return {
            "model": self.recipe.model_name,
            "dataset": self.recipe.data,
            "epochs": position.epoch,
            "best_epoch": position.best_epoch or position.epoch,
            # A mean rank is negative to the trainer, which maximises.
            "best_validation": {self.recipe.validation.metric: None if best is None else abs(best)},
            "training_seconds": round(position.seconds, 3),
        }


def binding(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a resumed run cannot change: all but where it runs and what it leaves on the way."""
    bound = {section: values for section, values in settings.items() if section != "format"}
    return bound | {"training": {key: value for key, value in settings["training"].items() if key not in _FREE}}


def fingerprint(settings: Mapping[str, Any], data: Iterable[bytes]) -> str:
    """A short text that changes with anything that changes the weights."""
    digest = hashlib.sha256(json.dumps(binding(settings), sort_keys=True).encode())
    for part in data:
        digest.update(part)
    return digest.hexdigest()[:16]
