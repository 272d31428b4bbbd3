"""How a training step's time grows with the number of entities: it should not.

    python -m benchmarks steps

Graphs of 10^4, 10^5 and 10^6 entities with ten thousand random triples each, batches of 128, everything else as in the
recipe of the model (for DistMult and ComplEx: as it is for large graphs). ``by tables`` is the same with an optimiser
that walks the whole table in each step, where that is possible in reasonable time.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from capse.experiments.recipe import Recipe
from capse.models import build_model
from capse.training.batches import draw_epoch
from capse.training.by_rows.learner import RowLearner
from capse.training.learner import GradientLearner
from capse.training.negatives import Negatives
from capse.training.objectives import build_objective

ENTITIES = (10_000, 100_000, 1_000_000)
TRIPLES, RELATIONS, BATCH = 10_000, 20, 128
STEPS, WARM = 40, 8
MODELS = ("transe", "distmult", "complex", "capse")


def run() -> dict[str, Any]:
    found = {model: {f"{entities:,}": _times(model, entities) for entities in ENTITIES} for model in MODELS}
    return {
        "unit": "milliseconds of a step, median",
        "batch": BATCH,
        "threads": torch.get_num_threads(),
        "models": found,
        "growth from 10^4 to 10^6": {model: _growth(times) for model, times in found.items()},
    }


def _growth(times: dict[str, dict[str, float]]) -> float:
    first, *_, last = (found["by rows"] for found in times.values())
    return round(last / first, 2)


def _times(model: str, entities: int) -> dict[str, float]:
    recipe = Recipe.resolve(model=model)
    if recipe.negatives.sampler == "all":
        recipe = replace(recipe, negatives=Negatives(sampler="shared", count=256))
    recipe = replace(recipe, training=replace(recipe.training, batch_size=BATCH))
    times = {"by rows": _median(recipe, entities, by_rows=True)}
    if entities < ENTITIES[-1]:
        times["by tables"] = _median(recipe, entities, by_rows=False)
    print(f"{model} {entities:,}: {times}", flush=True)
    return times


def _median(recipe: Recipe, entities: int, *, by_rows: bool) -> float:
    sizes = [entities, RELATIONS, entities]
    triples = np.unique(np.random.default_rng(0).integers(sizes, size=(TRIPLES, 3)), axis=0)
    model = build_model(recipe.model, entities, RELATIONS)
    objective = build_objective(model, triples, recipe.loss, recipe.negatives, recipe.regularizer)
    kind = RowLearner if by_rows else GradientLearner
    learner = kind(objective, recipe.training, recipe.optimizer)
    learner.train(True)
    epoch = draw_epoch(learner.examples, 0, draw="shuffle", batch_size=BATCH, seed=0, device=torch.device("cpu"))
    seconds = []
    for step in range(WARM + STEPS):
        started = time.perf_counter()
        learner.step(epoch, step, recipe.training.learning_rate)
        seconds.append(time.perf_counter() - started)
    return round(1e3 * float(np.median(seconds[WARM:])), 3)
