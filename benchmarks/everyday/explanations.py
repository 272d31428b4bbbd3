"""Does an answer hang on the fact that an explanation names? Train again without it, and without one drawn by chance.

ComplEx on the embedded graph. Questions are tails of test triples in an order by chance whose answer stands among the
first ten, other ones than a first record of 30 had; the fact named is the first of `Explanation.removals`. An answer is
moved where its rank gets worse; the share is the answer's in the softmax over all entities. Both tests are one-sided
and exact, over pairs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import mean, median
from typing import Any

import numpy as np
from scipy.stats import binomtest, spearmanr

import capse
from capse.experiments.removal import place_of, try_removal
from capse.graph.link_prediction.explanation import Removal
from capse.graph.link_prediction.predictor import LinkPredictor

SEEDS = (0, 1, 2)
QUESTIONS = 25  # for each seed
BEFORE = 10  # for each seed, of the first record
AMONG = 10  # the rank that an answer has at most, to be explained
SETTINGS = "ComplEx(dim=32, reciprocal=True), 10 epochs of batches of 256, learning rate 0.3, negatives: all"


def run() -> dict[str, Any]:
    rows = [row for seed in SEEDS for row in _of_seed(seed)]
    named, drawn = ([row[key] for row in rows] for key in ("named", "drawn"))
    return {"model": SETTINGS, "data": "countries", "rows": rows, "summary": _summary(rows, named, drawn)}


def _of_seed(seed: int) -> list[dict[str, Any]]:
    run = capse.fit(
        "countries",
        capse.ComplEx(dim=32, reciprocal=True),
        training=capse.Training(epochs=10, batch_size=256, learning_rate=0.3, seed=seed),
        negatives=capse.Negatives(sampler="all"),
        validation=capse.Validation(every=0),
    )
    found = []
    for triple, removal, seconds in _questions(run, seed):
        fact = removal.fact
        tried = try_removal(run, triple, (fact.head, fact.relation, fact.tail), seed=len(found) + 1000 * seed)
        places = {"named": tried.without, "drawn": tried.without_other}
        changes = {
            key: {"rank": place.rank, "log_share": place.log_share - tried.before.log_share}
            for key, place in places.items()
        }
        row = {"seed": seed, "question": list(triple), "rank": tried.before.rank, "fact": str(fact)}
        found.append({**row, "estimate": removal.change, "seconds": round(seconds, 4), **changes})
    return found


def _questions(run: LinkPredictor, seed: int) -> Iterator[tuple[tuple[str, str, str], Removal, float]]:
    graph, left = run.graph, BEFORE + QUESTIONS
    for place in np.random.default_rng(seed).permutation(len(graph.test)):
        if not left:
            return
        triple = graph.test[place].astype(np.int64)
        if place_of(run, triple, "tail").rank > AMONG:
            continue
        head, relation, tail = triple.tolist()
        labels = graph.entities.labels[head], graph.relations.labels[relation], graph.entities.labels[tail]
        started = time.perf_counter()
        why = run.explain(head=labels[0], relation=labels[1], tail=labels[2], most=1, removals=True)
        if not why.removals:
            continue
        left -= 1
        if left < QUESTIONS:
            yield labels, why.removals[0], time.perf_counter() - started


def _summary(rows: list[dict[str, Any]], named: list[Any], drawn: list[Any]) -> dict[str, Any]:
    worse = [[one["rank"] > row["rank"] for row, one in zip(rows, ones, strict=True)] for ones in (named, drawn)]
    only = [sum(a and not b for a, b in zip(*pair, strict=True)) for pair in (worse, worse[::-1])]
    lower = [a["log_share"] < b["log_share"] for a, b in zip(named, drawn, strict=True)]
    real = [one["log_share"] for one in named]
    return {
        "questions": len(rows),
        "moved": {"named": sum(worse[0]), "drawn": sum(worse[1])},
        "moved_p": binomtest(only[0], max(sum(only), 1), alternative="greater").pvalue,
        "named_lowers_the_share_more": sum(lower),
        "lowers_p": binomtest(sum(lower), len(lower), alternative="greater").pvalue,
        "mean_change": {"named": mean(real), "drawn": mean(one["log_share"] for one in drawn)},
        "estimate_against_truth": float(spearmanr([row["estimate"] for row in rows], real).statistic),
        "seconds": median(row["seconds"] for row in rows),
    }
