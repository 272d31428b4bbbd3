"""What if a fact were not there: the same training again, without it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from capse.arrays import Int64s
from capse.errors import DataError, RunError
from capse.experiments.fit import fit
from capse.experiments.listening import Listener
from capse.experiments.recipe import Recipe
from capse.graph.dataset import Graph
from capse.graph.link_prediction.explanation import Asked, Fact
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.runs.folder import RunFolder
from capse.triples import HEAD, TAIL, Triples


def retrain_without(
    run: LinkPredictor, facts: Any, *, out: str | Path | None = None, listener: Listener | None = None
) -> LinkPredictor:
    """Train a run's recipe again on its graph without some of its training facts, given by labels or names.

    Everything else is as it was: settings, seed, vocabulary, held-out triples. What differs has the removal as its
    cause, or that other negatives were drawn, which a removal brings about too: compare with what a random fact does.

    >>> import capse
    >>> run = capse.fit("countries", capse.DistMult(dim=8), training=capse.Training(epochs=1))
    >>> again = retrain_without(run, [("Kenya", "language", "Swahili")])
    >>> len(run.graph.train) - len(again.graph.train), again.graph.entities == run.graph.entities
    (1, True)
    """
    recipe = Recipe.from_mapping(check_retrains(run).read_recipe())
    return fit(without(run.graph, run.encode(facts)), recipe, out=out, listener=listener)


def check_retrains(run: LinkPredictor) -> RunFolder:
    """The folder of a run that says how it was trained."""
    if run.folder is None or not run.folder.recipe.is_file():
        raise RunError("this model is not a run: how it was trained is not known", "train it with capse train")
    recipe = run.folder.read_recipe()
    if "refinement" in recipe:
        raise RunError("a refined run is not trained again", "give the run that was refined")
    if "training" not in recipe:
        raise RunError("this run does not say how it was trained", "train it with capse train")
    return run.folder


def without(graph: Graph, triples: Triples) -> Graph:
    """A graph that lacks these training triples (n, 3); all else, ids included, is as it was."""
    missing = ~graph.known_in_train.contains(*triples.T)
    if missing.any():
        h, r, t = triples[np.flatnonzero(missing)[0]].tolist()
        labels = ", ".join((graph.entities.name(h), graph.relations.name(r), graph.entities.name(t)))
        raise DataError(f"({labels}) is no training fact", "name one of those that 'capse explain' lists")
    index = graph.known_in_train
    kept = ~np.isin(index.key(*graph.train.astype(np.int64).T), index.key(*triples.T))
    if not kept.any():
        raise DataError("no training fact would be left", "remove fewer")
    weights = {split: given[kept] if split == "train" else given for split, given in graph.weights.items()}
    return replace(graph, train=graph.train[kept], weights=weights)


@dataclass(frozen=True)
class Place:
    """Where an answer stands by one model."""

    score: float
    log_share: float  # the logarithm of its share in the softmax over all entities
    rank: float  # among the entities that make no known fact


@dataclass(frozen=True)
class Removed:
    """What becomes of an answer when a fact is removed and the model trained again, and when another one is."""

    fact: Fact
    before: Place
    without: Place
    other: Fact  # a training fact drawn by chance: what any removal does
    without_other: Place

    def to_json(self) -> dict[str, Any]:
        """What ``capse explain --without --json`` prints, under ``removed``."""
        return asdict(self)


def try_removal(
    run: LinkPredictor,
    triple: tuple[str, str, str],
    fact: tuple[str, str, str],
    asked: Asked = "tail",
    *,
    seed: int = 0,
    listener: Listener | None = None,
) -> Removed:
    """Train again without a fact, and without one that ``seed`` draws, and see where a triple's answer stands.

    The triple itself and the fact are not drawn.
    """
    train, (answer, named) = run.graph.train, run.encode([triple, fact])
    free = np.flatnonzero((train != answer).any(axis=1) & (train != named).any(axis=1))
    if not len(free):
        raise DataError("there is no other training fact to compare with", "use a larger graph")
    drawn = train[np.random.default_rng(seed).choice(free)]
    before = place_of(run, answer, asked)
    after = [
        place_of(retrain_without(run, [_labels(run.graph, removed)], listener=listener), answer, asked)
        for removed in (named, drawn)
    ]
    return Removed(Fact.of(run.graph, named), before, after[0], Fact.of(run.graph, drawn), after[1])


@torch.no_grad()
def place_of(run: LinkPredictor, triple: Int64s, asked: Asked) -> Place:
    """Where the answer of a triple (3,) stands, what is known of the question not competing."""
    graph, model = run.graph, run.model
    head, relation, tail = triple[:, None]
    answer = int(triple[HEAD if asked == "head" else TAIL])
    known = graph.known.heads(relation, tail) if asked == "head" else graph.known.tails(head, relation)
    h, r, t = torch.from_numpy(triple[:, None]).to(model.device)
    scores = (model.score_heads(r, t) if asked == "head" else model.score_tails(h, r))[0].double().cpu().numpy()
    rivals = np.delete(scores, np.union1d(known.entities, [answer]))
    better, equal = int((rivals > scores[answer]).sum()), int((rivals == scores[answer]).sum())
    share = float(scores[answer] - np.logaddexp.reduce(scores))
    return Place(float(scores[answer]), share, 1 + better + equal / 2)


def _labels(graph: Graph, triple: Triples) -> tuple[str, str, str]:
    head, relation, tail = triple.tolist()
    return graph.entities.labels[head], graph.relations.labels[relation], graph.entities.labels[tail]
