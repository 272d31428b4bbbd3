"""Train a recipe on a graph and leave a run folder."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch

from capse.errors import MissingExtraError, RunError, SettingsError
from capse.evaluation.metrics import METRICS, POLICIES, summarize
from capse.evaluation.ranks import Ranks
from capse.experiments.recipe import Recipe, load_recipe
from capse.experiments.start import start_embeddings
from capse.graph.dataset import Graph, load_graph
from capse.graph.link_prediction import rank_split
from capse.graph.predictor import LinkPredictor, choose_device, load_run_graph, read_recipe, save_run_graph
from capse.models import TripleModel, build_model
from capse.runs.atomic import atomic_folder, write_json, write_text
from capse.runs.folder import RunFolder
from capse.runs.records import provenance
from capse.training.checkpoints import Checkpoints
from capse.training.loop import StepReport as StepReport
from capse.training.loop import Trainer
from capse.training.objectives import build_objective
from capse.triples import TripleIndex


class Listener:
    """What a training tells whoever watches; override what is of interest."""

    def message(self, text: str) -> None:
        """A line about what is being done."""

    def step(self, report: StepReport) -> None:
        """A step has ended."""

    def epoch(self, record: dict[str, Any]) -> None:
        """An epoch has ended; ``record`` is its line of metrics.jsonl."""


def fit(
    data: Graph | str | Path,
    recipe: Recipe | str | None = None,
    *,
    out: str | Path,
    model: str | None = None,
    overrides: list[str] | None = None,
    resume: bool = False,
    listener: Listener | None = None,
) -> LinkPredictor:
    """Train on ``data`` (a graph, a dataset's name or a folder) and leave a run in ``out``.

    ``recipe`` is a Recipe, a YAML file or a shipped name; without one, the shipped recipe of ``model`` is used.
    A run that was stopped or killed goes on with ``resume``, and on a CPU ends with the same bits as if it had not.

    >>> import tempfile
    >>> run = fit("countries", model="distmult", out=tempfile.mkdtemp() + "/run",
    ...           overrides=["training.epochs=1", "model.dim=8"])
    >>> run.graph.name
    'countries'
    """
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe, model=model, overrides=overrides)
    elif model is not None or overrides:
        raise SettingsError("a whole recipe is given, and a model or overrides too", "put them into the recipe")
    graph = data if isinstance(data, Graph) else load_graph(data)
    recipe = Recipe.from_mapping(recipe.to_mapping() | {"data": graph.name})
    listener = listener or Listener()
    run = RunFolder(out)
    begun = _check_folder(run, recipe, resume)

    settings = recipe.training
    network = build_model(recipe.model_name, recipe.model, len(graph.entities), len(graph.relations), settings.seed)
    checkpoints = Checkpoints(run.checkpoints, fingerprint(recipe, graph))
    continues = checkpoints.last.exists()
    started = ""
    if not continues:
        started = start_embeddings(network, graph, recipe.start, recipe.model.dim)
        network.adapt()
    network.to(choose_device(settings.device))
    objective = build_objective(network, graph.train, recipe.loss, recipe.negatives, recipe.regularizer)
    validator = _Validator(network, graph, recipe)
    summary_writer = _summary_writer() if settings.tensorboard else None
    _ask_once(network)
    # Nothing was written so far: what is wrong with the input has been said by now.
    if not begun:
        _begin(run, recipe, graph)
    elif not continues:
        _check_data(run, recipe, graph)
    run.remove_leftovers()
    board = summary_writer(str(run.tensorboard)) if summary_writer else None

    def keep(record: dict[str, Any]) -> None:
        run.append_metrics(record)
        listener.epoch(record)
        if board is not None:
            _to_tensorboard(board, record)

    trainer = Trainer(
        objective,
        settings,
        recipe.optimizer,
        recipe.validation,
        checkpoints,
        validate=validator if len(graph.valid) else None,
        on_step=listener.step,
        on_epoch=keep,
    )
    if continues:
        trainer.resume()
        started = f"resuming after epoch {trainer.position.epoch}, step {trainer.position.step}"
    listener.message(started)
    was_finished = trainer.finished and run.results.is_file()
    run.keep_metrics_up_to(trainer.position.epoch)
    with closing(trainer.run()) as epochs:
        for _ in epochs:
            pass
    if board is not None:
        board.close()
    if trainer.position.best_epoch:
        checkpoints.load_best(network)
    predictor = LinkPredictor(network, graph)
    predictor.save(run)
    if not was_finished:  # else the record says when and where it was trained, and that stays true
        write_json(run.results, _results(recipe, trainer))
    return predictor


@torch.no_grad()
def _ask_once(network: TripleModel) -> None:
    """Score one triple as a validation does: what stands in the way of that is said now."""
    first = torch.zeros(1, dtype=torch.long, device=network.device)
    network.eval().score_tails(first, first, first)


def fingerprint(recipe: Recipe, graph: Graph) -> str:
    """A short text that changes with anything that changes the weights."""
    digest = hashlib.sha256(json.dumps(_binding(recipe), sort_keys=True).encode())
    for vocabulary in (graph.entities, graph.relations):
        digest.update("\n".join(vocabulary.labels).encode())
    for split in (graph.train, graph.valid):
        digest.update(np.ascontiguousarray(split).tobytes())
    return digest.hexdigest()[:16]


def _binding(recipe: Recipe) -> dict[str, Any]:
    """The settings that a resumed run cannot change: all but where it runs and what it leaves on the way."""
    values = recipe.to_mapping()
    for key in ("device", "checkpoint_seconds", "tensorboard"):
        del values["training"][key]
    return values


def _check_folder(run: RunFolder, recipe: Recipe, resume: bool) -> bool:
    """Whether a run was begun there; refuses to overwrite one, or to resume it with other settings."""
    if run.path.exists() and not run.path.is_dir():
        raise SettingsError(f"{run.path} is a file", "choose another --out")
    begun = run.recipe.is_file()
    if begun and not resume:
        raise RunError(f"there is a run in {run.path} already", "continue it with --resume, or choose another --out")
    if not begun and run.path.is_dir() and any(run.path.iterdir()):
        raise RunError(f"{run.path} is not empty and not a run", "choose another --out")
    if begun:
        stored, wanted = _binding(Recipe.from_mapping(read_recipe(run))), _binding(recipe)
        for section in wanted:
            if stored[section] != wanted[section]:
                raise RunError(
                    f"the run in {run.path} was begun with other settings in {section!r}",
                    "resume it with the recipe and options it was begun with, or choose another --out",
                )
    return begun


def _begin(run: RunFolder, recipe: Recipe, graph: Graph) -> None:
    """Make the folder with all that a resumed run needs, whole or not at all."""
    with atomic_folder(run.path) as temporary:
        folder = RunFolder(temporary)
        save_run_graph(folder, graph)
        write_text(folder.recipe, recipe.to_yaml())


def _check_data(run: RunFolder, recipe: Recipe, graph: Graph) -> None:
    """Refuse data that is not what the run was begun with; where there is a checkpoint, that does it."""
    if fingerprint(recipe, load_run_graph(run)) != fingerprint(recipe, graph):
        raise RunError(
            f"the run in {run.path} was begun with other data called {graph.name!r}",
            "resume it with that data (it is kept in the run: leave out --data), or choose another --out",
        )


class _Validator:
    """Filtered ranks on the validation set, and the one number among them that the best epoch is chosen by.

    The filter is made of training and validation triples only: a choice must not know the test set.
    """

    def __init__(self, model: TripleModel, graph: Graph, recipe: Recipe) -> None:
        self.side, self.policy, self.metric = parse_metric(recipe.validation.metric)
        self.model = model
        known = np.concatenate([graph.train, graph.valid])
        self.known = TripleIndex(known, len(graph.entities), len(graph.relations))
        self.triples = graph.valid
        if 0 < recipe.validation.triples < len(graph.valid):
            picked = np.random.default_rng(recipe.training.seed).permutation(len(graph.valid))
            self.triples = graph.valid[np.sort(picked[: recipe.validation.triples])]

    def __call__(self) -> tuple[float, dict[str, Any]]:
        heads, tails = rank_split(self.model, self.triples, self.known)
        summary = {
            "both": summarize(Ranks.concatenate([heads, tails])),
            "head": summarize(heads),
            "tail": summarize(tails),
        }
        value = summary[self.side][self.policy][self.metric]
        return (-value if self.metric == "mr" else value), summary["both"]


def parse_metric(text: str) -> tuple[str, str, str]:
    """Side, policy and metric of a name such as ``mrr``, ``hits@10`` or ``tail.pessimistic.hits@10``.

    >>> parse_metric("hits@10")
    ('both', 'realistic', 'hits@10')
    """
    *rest, metric = text.split(".")
    side = next((part for part in rest if part in ("both", "head", "tail")), "both")
    policy = next((part for part in rest if part in POLICIES), "realistic")
    if metric not in METRICS or set(rest) - {side, policy}:
        raise SettingsError(
            f"validation.metric is {text!r}",
            f"name one of {', '.join(METRICS)}, perhaps with a side and a tie policy: tail.pessimistic.mrr",
        )
    return side, policy, metric


def _results(recipe: Recipe, trainer: Trainer) -> dict[str, Any]:
    position = trainer.position
    best = position.best_value
    if best is not None and parse_metric(recipe.validation.metric)[2] == "mr":
        best = -best  # the trainer maximises
    return {
        "model": recipe.model_name,
        "dataset": recipe.data,
        "epochs": position.epoch,
        "best_epoch": position.best_epoch or position.epoch,
        "best_validation": {recipe.validation.metric: best},
        "training_seconds": round(position.seconds, 3),
        **provenance(),
    }


def _summary_writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtraError("training.tensorboard", "tensorboard") from error
    return SummaryWriter


def _to_tensorboard(board: Any, record: dict[str, Any]) -> None:
    for key in ("loss", "learning_rate", "examples_per_second"):
        board.add_scalar(f"training/{key}", record[key], record["epoch"])
    for policy, metrics in record.get("validation", {}).items():
        for metric, value in metrics.items():
            board.add_scalar(f"validation/{policy}/{metric}", value, record["epoch"])
    board.flush()
