"""A graph of which training saw no entity: its entities folded in from its own facts, and asked about the others.

`capse.inductive_split` of the graph, each seed drawing another. A model is trained on the first graph, gets the facts
of the second but for the tenth that is asked for, and ranks both sides of this tenth among the second graph's entities,
all known facts filtered. Rules are mined on the first graph. *Trained on both* is a training on all that is given.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import capse
from benchmarks.everyday.fold_in import PLANS, trained
from capse.evaluation.metrics import summarize
from capse.evaluation.ranks import Ranks
from capse.graph.dataset import Graph
from capse.graph.inductive import inductive_split
from capse.graph.link_prediction.candidates import Listed
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.link_prediction.restricted_ranking import rank_among

DATA = ("countries",)
SEEDS = (0, 1, 2)


def run() -> dict[str, Any]:
    rows = [row for data in DATA for seed in SEEDS for row in _rows(data, seed)]
    return {"models": {data: str(PLANS[data]) for data in DATA}, "rows": rows}


def labels(graph: Graph, split: str) -> list[tuple[str, str, str]]:
    entities, relations = graph.entities.labels, graph.relations.labels
    return [(entities[h], relations[r], entities[t]) for h, r, t in graph.split(split).tolist()]


def graphs(data: str, seed: int) -> tuple[Graph, Graph, Graph]:
    """What is seen, what is not, and all facts but those that are asked for."""
    seen, unseen = inductive_split(capse.load_graph(data), seed=seed)
    both = Graph.from_triples([*labels(seen, "train"), *labels(unseen, "train")], name=f"{data}-both")
    return seen, unseen, both


def _rows(data: str, seed: int) -> list[dict[str, Any]]:
    seen, unseen, both = graphs(data, seed)
    base, given = trained(data, seed, seen, "seen"), labels(unseen, "train")
    rules = {kinds: capse.fit(seen, capse.Rules(kinds=kinds)).updated(given) for kinds in ("inverse", "all")}
    runs = {
        "folded in": base.updated(given),
        "its beginning": base.updated(given, capse.FoldIn(steps=0)),
        **{f"rules, {kinds}": run for kinds, run in rules.items()},
        "trained on both": trained(data, seed, both, "both"),
    }
    sizes = {
        "entities": len(unseen.entities),
        "given": len(given),
        "asked": len(unseen.test),
        "trained": len(seen.train),
    }
    chance = 1 / np.arange(1, len(unseen.entities) + 1)
    found = {name: _metrics(run, unseen) for name, run in runs.items()} | {"chance": {"mrr": float(chance.mean())}}
    return [{"data": data, "seed": seed, "by": name, **sizes, **metrics} for name, metrics in found.items()]


def _metrics(run: LinkPredictor, unseen: Graph) -> dict[str, float]:
    asked = run.encode(labels(unseen, "test")).astype(np.int32)
    known = replace(run.graph, test=asked).known
    among = Listed.of_names(run.graph, unseen.entities.labels)
    metrics = summarize(Ranks.concatenate([*rank_among(run.model, asked, known, among)]))["realistic"]
    return {name: metrics[name] for name in ("mrr", "hits@1", "hits@10")}
