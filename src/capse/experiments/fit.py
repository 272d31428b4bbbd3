"""Train a recipe on a graph and leave a run folder."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from capse.errors import SettingsError
from capse.experiments import automatic, engine
from capse.experiments.adversaries import build_generator
from capse.experiments.division import division_of, with_division
from capse.experiments.engine import Listener, RunEngine
from capse.experiments.fit_rules import fit_rules
from capse.experiments.identity import identity
from capse.experiments.recipe import Recipe, Start
from capse.experiments.start import start_embeddings
from capse.experiments.validation import ChosenMetric, validation_triples
from capse.graph.dataset import Graph, as_graph
from capse.graph.link_prediction.predictor import LinkPredictor, load_run_graph, save_run_graph
from capse.graph.link_prediction.ranking import rank_split
from capse.graph.link_prediction.sharded_model import ShardedModel
from capse.graph.statistics import remembered
from capse.models import ModelSettings, TripleModel, build_model, entity_width
from capse.models.rules import Rules
from capse.processes.group import Group, joined
from capse.processes.job import size_of_job
from capse.processes.shards import Shards
from capse.runs.folder import RunFolder
from capse.runs.memory import check_memory
from capse.runs.tensors import load_tensors, table_on_disk
from capse.training.adversarial_learner import AdversarialLearner
from capse.training.adversary import Adversary, build_adversarial
from capse.training.by_rows.learner import Division, RowLearner
from capse.training.checkpoints import RowsHere
from capse.training.learner import GradientLearner, Learner
from capse.training.losses import Loss
from capse.training.negatives import Negatives
from capse.training.objectives import Objective, build_objective
from capse.training.optimizers import Optimizer
from capse.training.regularizers import Regularizer
from capse.training.settings import Training, Validation
from capse.triples import TripleIndex

_WITHOUT_START = (
    "{} begins with random vectors here and learns little from them; its authors begin with TransE's. Train TransE "
    "first and give its run as start.run, or name no model and have the best that is known"
)


def fit(
    data: Any,
    model: ModelSettings | Recipe | str | Path | None = None,
    *,
    out: str | Path | None = None,
    training: Training | None = None,
    loss: Loss | None = None,
    negatives: Negatives | None = None,
    adversary: Adversary | None = None,
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
    the recipe's; the recipe of a model's settings is the one that is shipped for that model. Without a model, the best
    that is known is scaled to the graph (see `automatic`). A run that was stopped or killed goes on with ``resume``,
    without a model as it was begun, and on a CPU ends with the same bits as if it had not.

    >>> import capse
    >>> run = fit("countries", capse.DistMult(dim=8), training=capse.Training(epochs=1))
    >>> run.graph.name
    'countries'
    """
    graph = as_graph(data)
    listener = listener or Listener()
    if model is None and resume and out is not None and RunFolder(out).recipe.is_file():
        model = Recipe.from_mapping(RunFolder(out).stored_recipe())
    unnamed = model is None
    recipe = Recipe.of(
        automatic.choose(graph) if unnamed else model,
        training=training,
        loss=loss,
        negatives=negatives,
        adversary=adversary,
        optimizer=optimizer,
        regularizer=regularizer,
        validation=validation,
        start=start,
    )
    lines = automatic.explain(recipe, graph) if unnamed else []
    if negatives is None and isinstance(model, ModelSettings | str | Path):
        source = None if isinstance(model, ModelSettings) else model
        if Recipe.leaves_negatives(source):
            recipe, lines = automatic.sampled_where_large(recipe, graph)
    for line in lines:
        listener.message(line)
    recipe = replace(recipe, data=graph.name)
    if isinstance(recipe.model, Rules):
        if size_of_job() > 1:
            raise SettingsError("rules are mined by one process", "start this without torchrun")
        return fit_rules(graph, recipe, out, resume=resume)
    with joined(recipe.training.wait_seconds) as group:
        return _fit(graph, recipe, out, resume, listener if group.leads else Listener(), group)


def _fit(
    graph: Graph, recipe: Recipe, out: str | Path | None, resume: bool, listener: Listener, group: Group
) -> LinkPredictor:
    """The same with all of it chosen, in each process of a group."""
    stored = RunFolder(out).stored_recipe() if resume and out is not None and RunFolder(out).recipe.is_file() else None
    recipe = with_division(recipe, len(graph.entities), group, stored)
    run = RunEngine(out, recipe, identity(graph), resume=resume, listener=listener, group=group)
    if run.begun:
        run.check_data(identity(load_run_graph(run.folder)))
    _check_step(recipe, graph)
    division = division_of(recipe, len(graph.entities) * entity_width(recipe.model), group)
    shards = division.shards(len(graph.entities)) if division else None
    network = build_model(
        recipe.model,
        len(graph.entities),
        len(graph.relations),
        recipe.training.seed,
        table=table_on_disk if shards is not None and group.size > 1 else torch.empty,
    )
    for split in ("valid", "test"):
        if warning := remembered(graph, split):
            run.listener.message(f"warning: {warning}")
    started = ""
    if network.scorer.wants_start and recipe.start == Start() and recipe.training.epochs and not run.begun:
        listener.message(_WITHOUT_START.format(type(recipe.model).__name__))
    if not run.continues:
        started = start_embeddings(network, graph, recipe.start, recipe.model.dim)
        network.adapt()
    network.count_self_loops(graph.train)
    if shards is not None:
        network.keep_rows(shards.own)
    network.to(run.device)
    learner = _learner(network, graph, recipe, division)
    validator = _Validator(network, graph, recipe, group, shards)
    if shards is None:
        _ask_once(network)
    predictor = LinkPredictor(network, graph, run.folder)
    run.train(
        learner,
        validator if len(graph.valid) else None,
        begin=lambda folder: save_run_graph(folder, graph),
        finish=partial(_finish, predictor, group, shards),
        started=started,
        rows=RowsHere(learner.row_names, shards.own) if shards and isinstance(learner, RowLearner) else None,
    )
    network.eval()
    return predictor


def _finish(predictor: LinkPredictor, group: Group, shards: Shards | None, folder: RunFolder) -> None:
    """Write the trained model. Where processes shared its table, each then reads all of it from there, mapped."""
    if shards is None or group.size == 1:
        if group.leads:
            predictor.save_weights(folder)
        return
    ShardedModel(predictor.model, shards).save(folder)
    group.wait()
    predictor.model.map_entities(load_tensors(folder.model, "train the model again")[0]["entities"])


def _check_step(recipe: Recipe, graph: Graph) -> None:
    """Refuse negatives whose ids alone find no room."""
    if recipe.negatives.sampler in ("bernoulli", "uniform"):
        ids = 3 * min(recipe.training.batch_size, len(graph.train)) * recipe.negatives.count
        remedy = "lower negatives.count or training.batch_size"
        check_memory(f"a step with {recipe.negatives.count:,} negatives of each triple", 8 * ids, remedy)


def _learner(network: TripleModel, graph: Graph, recipe: Recipe, division: Division | None) -> Learner:
    """What trains the network: alone, or against a second model that chooses its negatives."""
    objective: Objective
    generator = build_generator(recipe, graph, network)
    if generator is None:
        weights = graph.weights.get("train")
        objective = build_objective(network, graph.train, recipe.loss, recipe.negatives, recipe.regularizer, weights)
        if division is not None:
            return RowLearner(objective, recipe.training, recipe.optimizer, division)
        return GradientLearner(objective, recipe.training, recipe.optimizer)
    if "train" in graph.weights:
        raise SettingsError("training triples have weights, which an adversary does not know", "train without one")
    objective = build_adversarial(
        network, generator, graph.train, recipe.adversary, recipe.loss, recipe.negatives, recipe.regularizer
    )
    return AdversarialLearner(objective, recipe.training, recipe.optimizer, recipe.adversary)


@torch.no_grad()
def _ask_once(network: TripleModel) -> None:
    """Score one triple as a validation does: what stands in the way of that is said now."""
    first = torch.zeros(1, dtype=torch.long, device=network.device)
    network.eval().score_tails(first, first, first)


def fingerprint(recipe: Recipe, graph: Graph) -> str:
    """A short text that changes with anything that changes the weights."""
    return engine.fingerprint(recipe.to_mapping(), identity(graph))


class _Validator:
    """Filtered ranks on the validation set, and the one number among them that the best epoch is chosen by.

    The filter is made of training and validation triples only: a choice must not know the test set.
    """

    def __init__(
        self, model: TripleModel, graph: Graph, recipe: Recipe, group: Group, shards: Shards | None = None
    ) -> None:
        self.group = group
        self.divided = ShardedModel(model, shards) if shards else None
        self.metric = ChosenMetric.named(recipe.validation.metric)
        self.model, self.graph = model, graph
        self.triples = validation_triples(graph, recipe.validation, recipe.training.seed)

    @cached_property
    def known(self) -> TripleIndex:
        """Made by the first validation: it takes more memory than the triples themselves."""
        known = np.concatenate([self.graph.train, self.graph.valid])
        return TripleIndex(known, len(self.graph.entities), len(self.graph.relations))

    def __call__(self) -> tuple[float, dict[str, Any]]:
        if self.divided is not None:
            return self.metric.judge(*self.divided.rank(self.triples, self.known))
        return self.metric.judge(*rank_split(self.model, self.triples, self.known, group=self.group))
