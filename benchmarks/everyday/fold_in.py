"""New entities without training again: held-out entities folded in, against a model trained again with their facts.

Of entities with 4 to 50 training facts, 600 (of the embedded graph 120) are held out: the model is trained without any
triple that they are in. Half of each one's facts is given back, for folding in and for training again; the other half
is asked for, both sides, filtered. Settings of folding in were chosen on other entities; figures are of 500 (of the
embedded graph 100). Facts whose relation or other end would be in no triple any more are left out. What new entities do
to the ranks of others is seen by validation triples that have nothing of a held-out entity.
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

DATA = ("wn18rr",)
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Plan:
    """How many entities of a graph are held out, and what is trained."""

    held: int
    dev: int
    dim: int
    training: capse.Training
    negatives: capse.Negatives


PLANS = {
    "wn18rr": Plan(  # trained as for `classification`
        600,
        100,
        64,
        capse.Training(epochs=8, batch_size=2048, learning_rate=0.3),
        capse.Negatives(sampler="shared", count=512),
    ),
    "countries": Plan(
        120, 20, 32, capse.Training(epochs=10, batch_size=256, learning_rate=0.3), capse.Negatives(sampler="all")
    ),
}


@dataclass(frozen=True)
class HeldOut:
    """A graph without some entities, what is given back of them, and what is asked for; labels of triples."""

    base: Graph  # without the held-out entities
    again: Graph  # with the facts that are given back
    given: list[tuple[str, str, str]]
    asked: list[tuple[str, str, str]]
    others: list[tuple[str, str, str]]  # validation triples without a held-out entity
    dev: Bools  # (len(asked),) whose answer is about one of the first DEV entities


def hold_out(name: str, seed: int = 0) -> HeldOut:
    graph, plan = load_graph(name), PLANS[name]
    rng = np.random.default_rng(seed)
    train = graph.train.astype(np.int64)
    size = len(graph.entities)
    facts = np.bincount(train[:, [0, 2]].ravel(), minlength=size)
    chosen = rng.permutation(np.flatnonzero((facts >= 4) & (facts <= 50)))[: plan.held]
    place = np.full(size, -1)
    place[chosen] = np.arange(plan.held)
    touching = (place[train[:, [0, 2]]] >= 0).any(axis=1)
    kept, others = train[~touching], train[touching]
    others = others[np.isin(others[:, 1], kept[:, 1])]
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

    base, back, valid = named(kept), named(others[given]), graph.valid.astype(np.int64)
    first = np.where(place[asked] >= 0, place[asked], plan.held)[:, [0, 2]].min(axis=1)
    return HeldOut(
        Graph.from_triples(base, name=f"{name}-without"),
        Graph.from_triples([*base, *back], name=f"{name}-with"),
        back,
        named(asked),
        named(valid[seen[valid[:, [0, 2]]].all(axis=1) & np.isin(valid[:, 1], kept[:, 1])]),
        first < plan.dev,
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
    return measured(DATA, SEEDS)


def measured(names: tuple[str, ...], seeds: tuple[int, ...]) -> dict[str, Any]:
    return {
        "models": {name: str(PLANS[name]) for name in names},
        "rows": [_row(n, seed) for n in names for seed in seeds],
    }


def trained(data: str, seed: int, graph: Graph, name: str) -> LinkPredictor:
    """A run of the plan: one that is there already, or made now."""
    plan, path = PLANS[data], Path(os.environ.get("CAPSE_RUNS", "runs")) / f"fold-in-{name}-{data}-{seed}"
    if not (path / "model.safetensors").is_file():
        capse.fit(
            graph,
            capse.ComplEx(dim=plan.dim, reciprocal=True),
            training=replace(plan.training, seed=seed),
            negatives=plan.negatives,
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
    others = {
        name: summarize(ranks(model, held.others))["realistic"]["mrr"]
        for name, model in (("before", base), ("after", updated), ("trained again", again))
    }
    return {
        "data": data,
        "seed": seed,
        "entities": new,
        "given": len(held.given),
        "asked": int((~held.dev).sum()),
        "mrr": mrr,
        "others": len(held.others),
        "mrr_of_others": others,
        "share": mrr["folded in"] / mrr["trained again"],
        "seconds_per_entity": seconds / new,
        "old_scores_unchanged": base.score(old) == updated.score(old),
        "old_scores_compared": len(old),
    }
