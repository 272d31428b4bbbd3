"""How a training step's time grows with the number of entities: it should not.

    python -m benchmarks steps

Graphs of 10^4, 10^5 and 10^6 entities with ten thousand random triples each, batches of 128, everything else as in
the recipe of the model (for DistMult and ComplEx: as it is for large graphs). The three sizes take their steps in
turns, and what is counted is the processor's time, so that a busy machine slows all of them alike. ``by tables`` is the
same with an optimiser that walks the whole table in each step, where that is possible in reasonable time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
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
STEPS, WARM = 60, 8
MODELS = ("transe", "distmult", "complex", "capse")


def run() -> dict[str, Any]:
    found = {model: _times(model) for model in MODELS}
    return {
        "unit": "milliseconds of processor time of a step, median",
        "batch": BATCH,
        "threads": torch.get_num_threads(),
        "models": found,
        "growth from 10^4 to 10^6": {model: _growth(times["by rows"]) for model, times in found.items()},
    }


def _growth(times: dict[str, float]) -> float:
    first, *_, last = times.values()
    return round(last / first, 2)


def _times(model: str) -> dict[str, dict[str, float]]:
    recipe = Recipe.resolve(model=model)
    if recipe.negatives.sampler == "all":
        recipe = replace(recipe, negatives=Negatives(sampler="shared", count=256))
    recipe = replace(recipe, training=replace(recipe.training, batch_size=BATCH))
    times = {"by rows": _medians(recipe, ENTITIES, by_rows=True)}
    times["by tables"] = _medians(recipe, ENTITIES[:-1], by_rows=False)
    print(f"{model}: {times}", flush=True)
    return times


def _medians(recipe: Recipe, sizes: tuple[int, ...], *, by_rows: bool) -> dict[str, float]:
    steps = {f"{entities:,}": _stepper(recipe, entities, by_rows=by_rows) for entities in sizes}
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(WARM + STEPS):
        for name, step in steps.items():
            started = time.process_time()
            step(number)
            seconds[name].append(time.process_time() - started)
    return {name: round(1e3 * float(np.median(found[WARM:])), 3) for name, found in seconds.items()}


def _stepper(recipe: Recipe, entities: int, *, by_rows: bool) -> Callable[[int], object]:
    """What takes a step of that number."""
    sizes = [entities, RELATIONS, entities]
    triples = np.unique(np.random.default_rng(0).integers(sizes, size=(TRIPLES, 3)), axis=0)
    model = build_model(recipe.model, entities, RELATIONS)
    objective = build_objective(model, triples, recipe.loss, recipe.negatives, recipe.regularizer)
    kind = RowLearner if by_rows else GradientLearner
    learner = kind(objective, recipe.training, recipe.optimizer)
    learner.train(True)
    epoch = draw_epoch(learner.examples, 0, draw="shuffle", batch_size=BATCH, seed=0, device=torch.device("cpu"))
    return lambda number: learner.step(epoch, number, recipe.training.learning_rate)
