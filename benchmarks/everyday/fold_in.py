"""New entities without training again: held-out entities folded in, against a model trained again with their facts.

Of entities with 4 to 50 training facts, 600 are held out: the model is trained without any triple that they are in.
Half of each one's facts is given back, for folding in and for training again; the other half is asked for, both sides,
filtered. Settings of folding in were chosen on 100 of these entities (DEV), figures are of the other 500. Facts whose
other end would be in no triple any more are left out of everything.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import capse
from capse.arrays import Bools, Int64s
from capse.evaluation.metrics import summarize
from capse.evaluation.ranks import Ranks
from capse.graph.dataset import Graph, load_graph
from capse.graph.fold_in import FoldIn
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.link_prediction.ranking import rank_split

HELD, DEV = 600, 100
DATA = ("wn18rr",)
SEEDS = (0, 1, 2)
SETTINGS = (
    "ComplEx(dim=64, reciprocal=True), 5 epochs of batches of 4,096, learning rate 0.5, "
    "negatives: 256 that a batch shares"  # 15 seconds of one core; chosen by one look at the validation set of WN18RR
)


@dataclass(frozen=True)
class HeldOut:
    """A graph without some entities, what is given back of them, and what is asked for; labels of triples."""

    base: Graph  # without the held-out entities
    again: Graph  # with the facts that are given back
    given: list[tuple[str, str, str]]
    asked: list[tuple[str, str, str]]
    dev: Bools  # (len(asked),) whose answer is about one of the first DEV entities


def hold_out(name: str, seed: int = 0) -> HeldOut:
    graph = load_graph(name)
    rng = np.random.default_rng(seed)
    train = graph.train.astype(np.int64)
    size = len(graph.entities)
    facts = np.bincount(train[:, [0, 2]].ravel(), minlength=size)
    chosen = rng.permutation(np.flatnonzero((facts >= 4) & (facts <= 50)))[:HELD]
    place = np.full(size, -1)
    place[chosen] = np.arange(HELD)
    touching = (place[train[:, [0, 2]]] >= 0).any(axis=1)
    kept, others = train[~touching], train[touching]
    seen = np.zeros(size, bool)
    seen[kept[:, [0, 2]].ravel()] = True
    others = others[(seen | (place >= 0))[others[:, [0, 2]]].all(axis=1)]
    given = _half(others, place, rng)
    anchored = np.zeros(size, bool)
    anchored[others[given][:, [0, 2]].ravel()] = True
    asked = others[~given]
    asked = asked[(anchored | seen)[asked[:, [0, 2]]].all(axis=1)]

    def named(rows: Int64s) -> list[tuple[str, str, str]]:
        entities, relations = graph.entities.labels, graph.relations.labels
        return [(entities[h], relations[r], entities[t]) for h, r, t in rows.tolist()]

    base, back = named(kept), named(others[given])
    first = np.where(place[asked] >= 0, place[asked], HELD)[:, [0, 2]].min(axis=1)
    return HeldOut(
        Graph.from_triples(base, name=f"{name}-without"),
        Graph.from_triples([*base, *back], name=f"{name}-with"),
        back,
        named(asked),
        first < DEV,
    )


def _half(others: Int64s, place: Int64s, rng: np.random.Generator) -> Bools:
    """Which facts are given back: every other one of each entity, in an order by chance."""
    owner = np.where(place[others[:, 0]] >= 0, others[:, 0], others[:, 2])
    order = rng.permutation(len(others))
    order = order[np.argsort(owner[order], kind="stable")]
    starts = np.flatnonzero(np.diff(owner[order], prepend=-1))
    within = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    given = np.zeros(len(others), bool)
    given[order] = within % 2 == 0
    return given


def ranks(run: LinkPredictor, asked: list[tuple[str, str, str]]) -> Ranks:
    """Of both sides of what is asked for, all that is known being filtered."""
    graph = run.graph
    triples = run.encode(asked)
    known = replace(graph, test=triples.astype(np.int32)).known
    return Ranks.concatenate([*rank_split(run.model, triples, known)])


def run() -> dict[str, Any]:
    return {"model": SETTINGS, "rows": [_row(data, seed) for data in DATA for seed in SEEDS]}


def trained(data: str, seed: int, graph: Graph, name: str) -> LinkPredictor:
    """A run with these settings: one that is there already, or made now."""
    path = Path(os.environ.get("CAPSE_RUNS", "runs")) / f"fold-in-{name}-{data}-{seed}"
    if not (path / "model.safetensors").is_file():
        capse.fit(
            graph,
            capse.ComplEx(dim=64, reciprocal=True),
            training=capse.Training(epochs=5, batch_size=4096, learning_rate=0.5, seed=seed),
            negatives=capse.Negatives(sampler="shared", count=256),
            validation=capse.Validation(every=0),
            out=path,
        )
    return LinkPredictor.load(path)


def _row(data: str, seed: int) -> dict[str, Any]:
    held = hold_out(data, seed)
    base = trained(data, seed, held.base, "without")
    again = trained(data, seed, held.again, "with")
    started = time.perf_counter()
    updated = base.updated(held.given)
    seconds = time.perf_counter() - started
    new = len(updated.graph.entities) - len(base.graph.entities)
    judged = np.tile(~held.dev, 2)
    rng = np.random.default_rng(seed)
    sample = [tuple(row) for row in base.graph.train[rng.permutation(len(base.graph.train))[:10_000]].tolist()]
    labels, relations = base.graph.entities.labels, base.graph.relations.labels
    old = [(labels[h], relations[r], labels[t]) for h, r, t in sample]
    mrr = {
        name: summarize(ranks(model, held.asked)[judged])["realistic"]["mrr"]
        for name, model in (
            ("folded in", updated),
            ("trained again", again),
            ("begin alone", base.updated(held.given, FoldIn(steps=0))),
        )
    }
    return {
        "data": data,
        "seed": seed,
        "entities": new,
        "given": len(held.given),
        "asked": int((~held.dev).sum()),
        "mrr": mrr,
        "share": mrr["folded in"] / mrr["trained again"],
        "seconds_per_entity": seconds / new,
        "old_scores_unchanged": base.score(old) == updated.score(old),
        "old_scores_compared": len(old),
    }
