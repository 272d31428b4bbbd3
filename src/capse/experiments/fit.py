"""Train a recipe on a graph and leave a run folder."""

from __future__ import annotations

import hashlib
import json
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
from capse.graph.predictor import LinkPredictor, choose_device, read_recipe, save_run_graph
from capse.models import TripleModel, build_model
from capse.runs.atomic import write_json, write_text
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
    graph = data if isinstance(data, Graph) else load_graph(data)
    recipe = Recipe.from_mapping(recipe.to_mapping() | {"data": graph.name})
    listener = listener or Listener()
    run = RunFolder(out)
    _prepare(run, recipe, resume)

    settings = recipe.training
    if settings.precision == "tf32":
        torch.set_float32_matmul_precision("high")
    network = build_model(recipe.model_name, recipe.model, len(graph.entities), len(graph.relations), settings.seed)
    listener.message(start_embeddings(network, graph, recipe.start))
    network.to(choose_device(settings.device))
    objective = build_objective(network, graph.train, recipe.loss, recipe.negatives, recipe.regularizer)
    checkpoints = Checkpoints(run.checkpoints, fingerprint(recipe, graph))
    validator = _Validator(network, graph, recipe)
    trainer = Trainer(
        objective,
        settings,
        recipe.optimizer,
        recipe.validation,
        checkpoints,
        validate=validator if len(graph.valid) else None,
        on_step=listener.step,
    )
    if resume and checkpoints.last.exists():
        trainer.resume()
        listener.message(f"resuming after epoch {trainer.position.epoch}, step {trainer.position.step}")
    save_run_graph(run, graph)
    write_text(run.recipe, recipe.to_yaml())
    run.keep_metrics_up_to(trainer.position.epoch)
    board = _tensorboard(run) if settings.tensorboard else None
    for record in trainer.run():
        run.append_metrics(record)
        listener.epoch(record)
        if board is not None:
            _to_tensorboard(board, record)
    if board is not None:
        board.close()
    if trainer.position.best_epoch:
        checkpoints.load_best(network)
    predictor = LinkPredictor(network, graph)
    predictor.save(run)
    write_json(run.results, _results(recipe, trainer))
    return predictor


def fingerprint(recipe: Recipe, graph: Graph) -> str:
    """A short text that changes with anything that changes the weights."""
    values = recipe.to_mapping()
    for key in ("device", "checkpoint_seconds", "tensorboard"):
        del values["training"][key]
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    for split in (graph.train, graph.valid):
        digest.update(np.ascontiguousarray(split).tobytes())
    return digest.hexdigest()[:16]


def _prepare(run: RunFolder, recipe: Recipe, resume: bool) -> None:
    """Refuse to overwrite another run, or to resume one with other settings; resuming nothing begins anew."""
    if run.path.exists() and not run.path.is_dir():
        raise SettingsError(f"{run.path} is a file", "choose another --out")
    begun = run.recipe.is_file()
    if begun and not resume:
        raise RunError(f"there is a run in {run.path} already", "continue it with --resume, or choose another --out")
    if not begun and not resume and run.path.is_dir() and any(run.path.iterdir()):
        raise RunError(f"{run.path} is not empty and not a run", "choose another --out")
    if begun:
        stored, wanted = read_recipe(run), recipe.to_mapping()
        for section in wanted:
            if stored.get(section) != wanted[section]:
                raise RunError(
                    f"the run in {run.path} was begun with other settings in {section!r}",
                    "resume it with the recipe and options it was begun with, or choose another --out",
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
    return {
        "model": recipe.model_name,
        "dataset": recipe.data,
        "epochs": position.epoch,
        "best_epoch": position.best_epoch or position.epoch,
        "best_validation": {recipe.validation.metric: position.best_value},
        "training_seconds": round(position.seconds, 3),
        **provenance(),
    }


def _tensorboard(run: RunFolder) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtraError("training.tensorboard", "tensorboard") from error
    return SummaryWriter(str(run.tensorboard))


def _to_tensorboard(board: Any, record: dict[str, Any]) -> None:
    for key in ("loss", "learning_rate", "examples_per_second"):
        board.add_scalar(f"training/{key}", record[key], record["epoch"])
    for policy, metrics in record.get("validation", {}).items():
        for metric, value in metrics.items():
            board.add_scalar(f"validation/{policy}/{metric}", value, record["epoch"])
    board.flush()
