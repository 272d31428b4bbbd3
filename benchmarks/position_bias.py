"""Position bias: propensities beside what was planted, and rankers that were corrected beside plain ones.

    python -m benchmarks bias

Logs are simulated, five seeds. Propensities are estimated by the model that fits how people look in the log; the error
is the largest at any place. SP is trained on each log as it is, and again with clicks weighed by inverse propensity
(`bias.model`), with the same settings and seed. Both rank the test lists, and are judged by what was planted, which
people would click if they looked at everything: NDCG@10 of results that are about an interest of their user. Intervals
are over the users of all seeds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from capse.evaluation.clusters import cluster_interval, cluster_p_value
from capse.experiments.search.lambdamart_methods import fit_trees
from capse.search.bias.report import estimate
from capse.search.bias.settings import PositionBias
from capse.search.evaluation.list_metrics import graded_ndcg
from capse.search.logs.history import cutoffs
from capse.search.logs.simulation import Simulated, SimulationSettings, simulate
from capse.search.rankers.lambdamart import LambdaMARTSettings
from capse.search.vectors.vector_space import VectorSettings, build_vectors

SEEDS = (0, 1, 2, 3, 4)
WORLD = SimulationSettings(users=100, impressions=8_000)
PLANTED = {
    "position": [replace(WORLD, position_bias=eta) for eta in (0.0, 0.5, 1.0)],
    "cascade": [replace(WORLD, examination="cascade", continuation=going_on) for going_on in (0.2, 0.6)],
}
TREES = LambdaMARTSettings(trees=200, leaves=15, learning_rate=0.1, patience=30, refit=False)
RANKED = 3_000  # lists of a ranker's log, the last fifth of which judge
TARGET = 0.05  # that an estimated propensity may be off


def run() -> dict[str, Any]:
    return {"seeds": list(SEEDS), "propensities": _propensities(), "rankers": _rankers()}


def _propensities() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for model, worlds in PLANTED.items():
        for world in worlds:
            errors = [round(error(replace(world, seed=seed), model), 4) for seed in SEEDS]
            planted = world.position_bias if model == "position" else world.continuation
            found[f"{model}, {planted:g}"] = {"largest error by seed": errors, "most": max(errors), "target": TARGET}
            print(model, planted, errors, flush=True)
    return found


def error(world: SimulationSettings, model: str) -> float:
    """Of the estimated propensities, the largest at any place."""
    simulated = simulate(world)
    log = simulated.log
    truth = [simulated.looked_at[log.position == place].mean() for place in range(1, world.results + 1)]
    return float(np.abs(np.array(estimate(log, model).looked) - truth).max())


def _rankers() -> dict[str, Any]:
    found = {}
    for model, planted in (("position", PLANTED["position"][2]), ("cascade", PLANTED["cascade"][0])):
        world = replace(planted, impressions=RANKED)
        users, plain, corrected = [], [], []
        for seed in SEEDS:
            who, *both = judged(simulate(replace(world, seed=seed)), model, seed)
            users.append(who + 1_000 * seed)
            plain.append(both[0])
            corrected.append(both[1])
            print(model, seed, [round(float(of.mean()), 4) for of in both], flush=True)
        gained = np.concatenate(corrected) - np.concatenate(plain)
        owners = np.concatenate(users)
        low, high = cluster_interval(gained, owners).tolist()
        found[model] = {
            "plain": [round(float(of.mean()), 4) for of in plain],
            "corrected": [round(float(of.mean()), 4) for of in corrected],
            "gained": {"mean": float(gained.mean()), "low": low, "high": high, "p": cluster_p_value(gained, owners)},
        }
    return found


def judged(simulated: Simulated, model: str, seed: int) -> tuple[Any, Any, Any]:
    """User of each test list that has something wanted, and NDCG@10 of the plain and of the corrected ranker."""
    log = simulated.log
    space = build_vectors(log, VectorSettings(source="encoder", dimensions=50))
    test = log.of_split("test")
    wanted = simulated.wanted[log.rows(test)].astype(float)
    lengths = log.lengths[test]
    some = np.bincount(np.repeat(np.arange(len(test)), lengths), wanted) > 0
    scores = []
    for bias in (PositionBias(), PositionBias(model)):
        ranker = fit_trees(log, seed, settings=TREES, space=space, bias=bias)
        scores.append(graded_ndcg(ranker.score(log, test, cutoffs(log)), wanted, lengths)[some])
    return log.user[test][some], scores[0], scores[1]
