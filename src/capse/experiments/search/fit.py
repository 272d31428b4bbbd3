"""Train a recipe on a search log and leave a run folder."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from capse.errors import RunError, SettingsError
from capse.experiments.fit import Listener
from capse.experiments.search.lists import ListValidator, start_users, training_lists, training_users
from capse.experiments.search.recipe import SearchRecipe, load_search_recipe
from capse.runs.atomic import atomic_folder, write_json
from capse.runs.folder import RunFolder
from capse.runs.records import provenance
from capse.runs.settings import load_yaml
from capse.search.log import SearchLog
from capse.search.run import SearchRun, personal_model
from capse.search.vectors import Vectors, VectorSpace, build_vectors
from capse.training.checkpoints import Checkpoints
from capse.training.lists import ListObjective
from capse.training.loop import Trainer

LOG = "log.json"  # in the run: which log it was begun with


def fit_search(
    log: SearchLog,
    recipe: SearchRecipe | str | None = None,
    *,
    out: str | Path,
    method: str | None = None,
    overrides: list[str] | None = None,
    resume: bool = False,
    listener: Listener | None = None,
    space: VectorSpace | None = None,
) -> SearchRun:
    """Train on the lists of a log that have a satisfied click, and leave a run in ``out``.

    ``recipe`` is a SearchRecipe, a YAML file or a shipped name; without one, the shipped recipe of ``method``. A run
    that was stopped or killed goes on with ``resume``, and on a CPU ends with the same bits as if it had not.
    ``space`` is one that was built from this log with the recipe's own settings, where several runs share it.

    >>> import tempfile
    >>> from capse.search.simulate import SimulationSettings, simulate
    >>> log = simulate(SimulationSettings(users=5, documents=40, impressions=60)).log
    >>> run = fit_search(log, method="transe", out=tempfile.mkdtemp() + "/run",
    ...                  overrides=["training.epochs=1", "vectors.dimensions=8"])
    >>> run.method, run.width
    ('transe', 8)
    """
    if not isinstance(recipe, SearchRecipe):
        recipe = load_search_recipe(recipe, method=method, overrides=overrides)
    elif method is not None or overrides:
        raise SettingsError("a whole recipe is given, and a method or overrides too", "put them into the recipe")
    recipe = SearchRecipe.from_mapping(recipe.to_mapping() | {"data": log.name})
    listener = listener or Listener()
    folder = RunFolder(out)
    identity = fingerprint(recipe, log)
    begun = _check_folder(folder, recipe, log, resume)
    users = training_users(log) if recipe.profile.user != "profile" else []
    if begun:
        space = VectorSpace.load(folder.vectors, recipe.vectors.encoder)
    elif space is None:
        listener.message(f"making vectors of {len(log.documents)} documents")
        space = build_vectors(log, recipe.vectors)
    if space.settings != recipe.vectors:
        raise SettingsError("the vectors that are given were made with other settings", "use the recipe's own")
    vectors = space.vectors(log)
    for note in vectors.notes:
        listener.message(note)
    model = personal_model(recipe.model_name, recipe.model, len(users), space.width, recipe.training.seed)
    if recipe.training.epochs and not any(len(parameter.view(-1)) for parameter in model.parameters()):
        remedy = "set profile.user=offset, or training.epochs=0"
        raise SettingsError(f"{recipe.model_name} has nothing to learn but users' vectors", remedy)
    run = SearchRun(recipe.model_name, recipe.model, recipe.profile, model, space, users)
    if recipe.profile.user == "trained":
        start_users(model, log, run, vectors)
    trainer = _trainer(log, run, recipe, vectors, Checkpoints(folder.checkpoints, identity), folder, listener)
    # Nothing was written so far: what is wrong with the input has been said by now.
    if not begun:
        with atomic_folder(folder.path) as temporary:
            run.save(temporary, recipe.to_yaml())
            RunFolder(temporary).model.unlink()  # it says that a run is finished
            write_json(temporary / LOG, {"name": log.name, "fingerprint": log_fingerprint(log)})
    folder.remove_leftovers()
    if trainer.checkpoints.last.exists():
        trainer.resume()
        listener.message(f"resuming after epoch {trainer.position.epoch}, step {trainer.position.step}")
    was_finished = trainer.finished and folder.results.is_file()
    folder.keep_metrics_up_to(trainer.position.epoch)
    with closing(trainer.run()) as epochs:
        for _ in epochs:
            pass
    if trainer.position.best_epoch:
        trainer.checkpoints.load_best(model)
    model.eval().to("cpu")
    run.save_model(folder)
    if not was_finished:  # else the record says when and where it was trained, and that stays true
        write_json(folder.results, _results(recipe, trainer, vectors))
    return run


def fingerprint(recipe: SearchRecipe, log: SearchLog) -> str:
    """A short text that changes with anything that changes the weights."""
    text = json.dumps(_binding(recipe), sort_keys=True) + log_fingerprint(log)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def log_fingerprint(log: SearchLog) -> str:
    """A short text that changes with anything that a run learns from a log."""
    digest = hashlib.sha256()
    for labels in (log.users, log.queries, log.documents.ids, log.documents.titles):
        digest.update("\n".join(labels).encode())
    columns = (log.time, log.user, log.session, log.query, log.split, log.offsets, log.document, log.position)
    for column in (*columns, log.clicked_at, log.satisfied):
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()[:16]


def _trainer(
    log: SearchLog,
    run: SearchRun,
    recipe: SearchRecipe,
    vectors: Vectors,
    checkpoints: Checkpoints,
    folder: RunFolder,
    listener: Listener,
) -> Trainer:
    def keep(record: dict[str, Any]) -> None:
        folder.append_metrics(record)
        listener.epoch(record)

    validator = ListValidator(log, run, vectors, recipe.validation.metric) if len(log.judged("valid")) else None
    return Trainer(
        ListObjective(run.model, training_lists(log, run, vectors), recipe.loss, recipe.shown),
        recipe.training,
        recipe.optimizer,
        recipe.validation.for_trainer(),
        checkpoints,
        validate=validator,
        on_step=listener.step,
        on_epoch=keep,
    )


def _binding(recipe: SearchRecipe) -> dict[str, Any]:
    """The settings that a resumed run cannot change: all but where it runs and what it leaves on the way."""
    values = recipe.to_mapping()
    for key in ("device", "checkpoint_seconds", "tensorboard"):
        del values["training"][key]
    return values


def _check_folder(folder: RunFolder, recipe: SearchRecipe, log: SearchLog, resume: bool) -> bool:
    """Whether a run was begun there; refuses to overwrite one, or to resume it with other settings or another log."""
    if folder.path.exists() and not folder.path.is_dir():
        raise SettingsError(f"{folder.path} is a file", "choose another --out")
    begun = folder.recipe.is_file()
    if begun and not resume:
        raise RunError(f"there is a run in {folder.path} already", "continue it with --resume, or choose another --out")
    if not begun and folder.path.is_dir() and any(folder.path.iterdir()):
        raise RunError(f"{folder.path} is not empty and not a run", "choose another --out")
    if begun:
        text = folder.recipe.read_text(encoding="utf-8")
        stored, wanted = (
            _binding(SearchRecipe.from_mapping(load_yaml(text, str(folder.recipe)))),
            _binding(recipe),
        )
        for section in wanted:
            if stored[section] != wanted[section]:
                raise RunError(
                    f"the run in {folder.path} was begun with other settings in {section!r}",
                    "resume it with the recipe and options it was begun with, or choose another --out",
                )
        _check_log(folder, log)
    return begun


def _check_log(folder: RunFolder, log: SearchLog) -> None:
    try:
        stored = json.loads((folder.path / LOG).read_text(encoding="utf-8"))["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{folder.path / LOG} is missing or damaged", "train the run again") from error
    if stored != log_fingerprint(log):
        raise RunError(
            f"the run in {folder.path} was begun with another log called {log.name!r}",
            "resume it with that log, or choose another --out",
        )


def _results(recipe: SearchRecipe, trainer: Trainer, vectors: Vectors) -> dict[str, Any]:
    position = trainer.position
    return {
        "model": recipe.model_name,
        "dataset": recipe.data,
        "epochs": position.epoch,
        "best_epoch": position.best_epoch or position.epoch,
        "best_validation": {recipe.validation.metric: position.best_value},
        "training_seconds": round(position.seconds, 3),
        "leaks": vectors.leaks,
        **provenance(),
    }
