"""A simulated shop: what each type of field and each kind of event is worth to the trees, with intervals over users.

    python -m benchmarks shop

SP is trained with all fields and events, and again without one of them, on the same lists and with the same seed of the
trees. Both are judged on the test lists by NDCG@10, first with what was planted as the gain of a result (by how much
its worth is above the list's median, which no log shows), then with the grades of what users did. Intervals are over
users, drawn again with all their lists; differences are pooled over the seeds of the shop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

import numpy as np

from benchmarks.shop_world import Shop, make_shop
from capse.search.evaluation.list_metrics import graded_ndcg
from capse.search.logs.actions import KINDS, Actions, EventWeights
from capse.search.logs.field_schema import FieldSchema
from capse.search.logs.history import cutoffs
from capse.search.logs.log_fields import LogFields
from capse.search.logs.search_log import SearchLog
from capse.search.rankers.lambdamart import LambdaMARTSettings
from capse.search.rankers.sp_lambdamart import SP

SEEDS = (3, 4)  # 0 to 2 were of an earlier shop, see results/tried.md
SETTINGS = LambdaMARTSettings(trees=150, leaves=15, learning_rate=0.1, patience=30, refit=False)
GROUPS = ("rank", "document", "history", "context", "fields", "taste", "events")
Without = Callable[[SearchLog], SearchLog]


def run() -> dict[str, Any]:
    with ProcessPoolExecutor(len(SEEDS), mp_context=get_context("spawn")) as processes:
        shops = list(processes.map(of_seed, SEEDS))
    whole, plain, others = zip(*shops, strict=True)
    gained = {
        name: _gained([(seed, full, of[name]) for seed, full, of in zip(SEEDS, whole, others, strict=True)])
        for name in _variants()
    }
    both = [(seed, full, bare) for seed, full, bare in zip(SEEDS, whole, plain, strict=True)]
    means = {name: [float(np.mean(of[place])) for of in whole] for place, name in ((1, "planted"), (2, "graded"))}
    bare = {name: [float(np.mean(of[place])) for of in plain] for place, name in ((1, "planted"), (2, "graded"))}
    return {
        "seeds": list(SEEDS),
        "ndcg@10 with all": means,
        "ndcg@10 with neither fields nor events": bare,
        "gained by all": _gained(both),
        "gained by each": gained,
    }


def of_seed(seed: int) -> tuple[Any, Any, dict[str, Any]]:
    """Figures with all, with neither fields nor events, and without each kind of them."""
    shop = make_shop(seed)
    full, others = figures(shop, shop.log), {}
    for name, without in _variants().items():
        others[name] = figures(shop, without(shop.log))
        print(name, seed, round(float((full[1] - others[name][1]).mean()), 4), flush=True)
    return full, figures(shop, without_everything(shop.log)), others


def figures(shop: Shop, log: SearchLog) -> tuple[Any, Any, Any]:
    """User of each judged test list, and its NDCG by what was planted and by what was done."""
    ranker = SP.fit(log, cutoffs(log), SETTINGS, GROUPS)
    test = shop.log.judged("test")
    rows, lengths = shop.log.rows(test), shop.log.lengths[test]
    scores = ranker.score(log, test, cutoffs(log))
    wanted = shop.wanted[rows].reshape(len(test), -1)
    worth = np.maximum(wanted - np.median(wanted, axis=1, keepdims=True), 0).ravel()
    done = shop.log.actions.gains(shop.log.satisfied, EventWeights())[rows]
    return shop.log.user[test], graded_ndcg(scores, worth, lengths), graded_ndcg(scores, done, lengths)


def without_everything(log: SearchLog) -> SearchLog:
    return replace(log, fields=LogFields(), actions=Actions())


def without_field(*names: str) -> Without:
    """Without fields of these scopes and names, and without what compares them."""

    def without(log: SearchLog) -> SearchLog:
        content = log.fields.schema.to_mapping()
        for label in names:
            scope, _, name = label.partition(".")
            if name:
                del content[scope][name]
            else:
                del content[scope]
        kept = [pair for pair in content.get("match", []) if not set(pair) & set(names)]
        schema = FieldSchema.of({**content, "match": kept})
        columns: dict[str, Mapping[str, Any]] = {
            scope: {name: getattr(log.fields, scope)[name] for name in schema.types(scope)}
            for scope in ("item", "user", "request", "result")
        }
        return replace(log, fields=LogFields(schema, **columns))

    return without


def without_kind(kind: str) -> Without:
    place = KINDS.index(kind)
    return lambda log: replace(log, actions=log.actions.where(log.actions.kind != place))


def _variants() -> dict[str, Without]:
    fields = {
        "number of items (price)": ("item.price",),
        "category of items (brand)": ("item.brand",),
        "list of items (tags)": ("item.tags",),
        "boolean of items (in stock)": ("item.in_stock",),
        "time of items (released)": ("item.released",),
        "number of users (age)": ("user.age",),
        "category of users (country)": ("user.country",),
        "category of requests (device)": ("request.device",),
        "number of results (relevance)": ("result.relevance",),
        "windows": ("windows",),
    }
    kinds = ("view", "like", "cart", "purchase", "dislike")
    return {name: without_field(*of) for name, of in fields.items()} | {kind: without_kind(kind) for kind in kinds}


def _gained(found: list[tuple[int, Any, Any]]) -> dict[str, Any]:
    """Mean differences over lists, with 95 % bootstrap intervals over users of all seeds."""
    owner = np.concatenate([full[0] + 100_000 * seed for seed, full, _ in found])
    result: dict[str, Any] = {}
    for place, name in ((1, "planted"), (2, "graded")):
        differences = np.concatenate([full[place] - other[place] for _, full, other in found])
        _, user = np.unique(owner, return_inverse=True)
        sums, counts = np.bincount(user, differences), np.bincount(user)
        drawn = np.random.default_rng(0).multinomial(len(counts), np.full(len(counts), 1 / len(counts)), 2_000)
        low, high = np.quantile((drawn @ sums) / (drawn @ counts), [0.025, 0.975])
        each = [round(float((full[place] - other[place]).mean()), 5) for _, full, other in found]
        result[name] = {"mean": float(differences.mean()), "low": float(low), "high": float(high), "by seed": each}
    return result
