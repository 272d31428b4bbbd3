"""Count the rules of a graph and leave a run folder, as a training does."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from capse.errors import RunError
from capse.evaluation.metrics import summarize
from capse.evaluation.ranks import Ranks
from capse.experiments.recipe import Recipe
from capse.graph.dataset import Graph
from capse.graph.link_prediction.predictor import LinkPredictor, save_run_graph
from capse.graph.link_prediction.ranking import rank_split
from capse.graph.rule_mining import Rule, mine
from capse.models import build_model
from capse.models.rules import RuleModel, Rules
from capse.runs.atomic import atomic_folder, write_json, write_text
from capse.runs.folder import RunFolder, is_begun
from capse.runs.manifest import write_manifest
from capse.runs.records import provenance
from capse.triples import TripleIndex

_KINDS = {"inverse": ("symmetric", "inverse"), "all": ("symmetric", "inverse", "duplicate", "composed")}


def fit_rules(graph: Graph, recipe: Recipe, out: str | Path | None, *, resume: bool = False) -> LinkPredictor:
    """A run of the rule baseline; there is nothing to resume, as it is made in one go."""
    assert isinstance(recipe.model, Rules)
    folder = RunFolder.temporary() if out is None else RunFolder(out)
    if is_begun(folder.path, folder.recipe, "run", resume):
        if folder.stored_recipe() != recipe.to_mapping():
            raise RunError(f"the run in {folder.path} was begun with other settings", "choose another --out")
        return LinkPredictor.load(folder.path)
    started = time.perf_counter()
    model = build_model(recipe.model, len(graph.entities), len(graph.relations))
    assert isinstance(model, RuleModel)
    learn(model, graph, recipe.model, recipe.training.seed)
    predictor = LinkPredictor(model, graph, folder)
    results = {
        "model": recipe.model_name,
        "dataset": graph.name,
        "epochs": 0,
        "rules": len(model.rules),
        "best_validation": {"mrr": _validation_mrr(model, graph) if len(graph.valid) else None},
        "training_seconds": round(time.perf_counter() - started, 3),
    }
    with atomic_folder(folder.path) as temporary:
        run = RunFolder(temporary)
        write_text(run.recipe, recipe.to_yaml())
        save_run_graph(run, graph)
        predictor.save_weights(run)
        write_json(run.results, {**results, **provenance()})
        write_manifest(temporary)
    return predictor


def learn(model: RuleModel, graph: Graph, settings: Rules, seed: int = 0) -> None:
    """Give a model the training facts and the rules that they obey."""
    mined = mine(
        graph.train,
        len(graph.entities),
        len(graph.relations),
        least_confidence=settings.least_confidence,
        least_support=settings.least_support,
        composed=settings.kinds == "all",
        seed=seed,
    )
    rules = [rule for rule in mined if rule.kind in _KINDS[settings.kinds]]
    confidences = [rule.support / (rule.support / rule.confidence + settings.doubt) for rule in rules]
    rows = np.array([_row(rule) for rule in rules], np.int64).reshape(-1, 5)
    model.learn(graph.train.astype(np.int64), rows, np.array(confidences, np.float32))


def _row(rule: Rule) -> list[int]:
    steps = [number for relation, forwards in rule.body for number in (relation, int(forwards))]
    return [rule.relation, *steps, *([-1, -1] if len(rule.body) == 1 else [])]


def _validation_mrr(model: RuleModel, graph: Graph) -> float:
    """Filtered by training and validation triples only, as of every model."""
    known = TripleIndex(np.concatenate([graph.train, graph.valid]), len(graph.entities), len(graph.relations))
    heads, tails = rank_split(model, graph.valid, known)
    mrr: float = summarize(Ranks.concatenate([heads, tails]))["realistic"]["mrr"]
    return mrr
