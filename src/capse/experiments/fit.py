"""Train a recipe on a graph and leave a run folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from capse.errors import SettingsError
from capse.evaluation.metrics import METRICS, POLICIES, summarize
from capse.evaluation.ranks import Ranks
from capse.experiments import engine
from capse.experiments.engine import Listener, RunEngine
from capse.experiments.recipe import Recipe, Start
from capse.experiments.start import start_embeddings
from capse.graph.dataset import Graph, as_graph
from capse.graph.link_prediction.predictor import LinkPredictor, load_run_graph, save_run_graph
from capse.graph.link_prediction.ranking import rank_split
from capse.models import ModelSettings, TripleModel, build_model
from capse.training.learner import GradientLearner
from capse.training.losses import Loss
from capse.training.negatives import Negatives
from capse.training.objectives import build_objective
from capse.training.optimizers import Optimizer
from capse.training.regularizers import Regularizer
from capse.training.settings import Training, Validation
from capse.triples import TripleIndex


def fit(
    data: Any,
    model: ModelSettings | Recipe | str | Path | None = None,
    *,
    out: str | Path | None = None,
    training: Training | None = None,
    loss: Loss | None = None,
    negatives: Negatives | None = None,
    optimizer: Optimizer | None = None,
    regularizer: Regularizer | None = None,
    validation: Validation | None = None,
    start: Start | None = None,
    resume: bool = False,
    listener: Listener | None = None,
) -> LinkPredictor:
    """Train on ``data`` and leave a run in ``out``, a temporary folder if that is None.

    ``data`` is a graph, its name or folder, or triples (see `Graph.from_triples`). ``model`` is a model's settings, or
    a recipe: itself, its YAML file or its shipped name. Settings that are not given, in a section or of the model, are
    the recipe's; the recipe of a model's settings is the one that is shipped for that model. A run that was stopped or
    killed goes on with ``resume``, and on a CPU ends with the same bits as if it had not.

    >>> import capse
    >>> run = fit("countries", capse.DistMult(dim=8), training=capse.Training(epochs=1))
    >>> run.graph.name
    'countries'
    """
    graph = as_graph(data)
    recipe = Recipe.of(
        model,
        training=training,
        loss=loss,
        negatives=negatives,
        optimizer=optimizer,
        regularizer=regularizer,
        validation=validation,
        start=start,
    )
    recipe = replace(recipe, data=graph.name)
    run = RunEngine(out, recipe, identity(graph), resume=resume, listener=listener)
    if run.begun:
        run.check_data(identity(load_run_graph(run.folder)))
    network = build_model(recipe.model, len(graph.entities), len(graph.relations), recipe.training.seed)
    started = ""
    if not run.continues:
        started = start_embeddings(network, graph, recipe.start, recipe.model.dim)
        network.adapt()
    network.to(run.device)
    objective = build_objective(network, graph.train, recipe.loss, recipe.negatives, recipe.regularizer)
    validator = _Validator(network, graph, recipe)
    _ask_once(network)
    predictor = LinkPredictor(network, graph, run.folder)
    run.train(
        GradientLearner(objective, recipe.training, recipe.optimizer),
        validator if len(graph.valid) else None,
        begin=lambda folder: save_run_graph(folder, graph),
        finish=predictor.save_weights,
        started=started,
    )
    network.eval()
    return predictor


@torch.no_grad()
def _ask_once(network: TripleModel) -> None:
    """Score one triple as a validation does: what stands in the way of that is said now."""
    first = torch.zeros(1, dtype=torch.long, device=network.device)
    network.eval().score_tails(first, first, first)


def identity(graph: Graph) -> Iterator[bytes]:
    """All of a graph that a training depends on."""
    for vocabulary in (graph.entities, graph.relations):
        yield "\n".join(vocabulary.labels).encode()
    for split in (graph.train, graph.valid):
        yield np.ascontiguousarray(split).tobytes()


def fingerprint(recipe: Recipe, graph: Graph) -> str:
    """A short text that changes with anything that changes the weights."""
    return engine.fingerprint(recipe.to_mapping(), identity(graph))


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
