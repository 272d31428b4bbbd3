"""Kinship, UMLS and Nations, which no setting was chosen on: the default recipe, `tune`, ComplEx by hand, and PyKEEN.

    python -m benchmarks.held_out_graphs [METHOD ...] [GRAPH ...]

Methods: default, by-hand, tune, pykeen (5 epochs, as is its default), pykeen-100. All methods and graphs by default.

The graphs come with PyKEEN, splits included. Every method is run with three seeds; what it chooses, it chooses by the
validation set. Each finished run is written to results/held-out/METHOD-GRAPH-SEED.json, and is not repeated.
"""

from __future__ import annotations

import itertools
import json
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import capse
from capse.runs.atomic import write_json
from capse.runs.records import provenance

RESULTS = Path(__file__).parents[1] / "results" / "held-out"
GRAPHS = {"kinship": "kinships", "umls": "umls", "nations": "nations"}  # and the folder of each in PyKEEN
SEEDS = (0, 1, 2)
# By hand: ComplEx with one softmax over all entities, by N3 and rank; of the trials with seed 0 the best is kept.
HAND_N3, HAND_RANKS = (0.001, 0.003, 0.01, 0.03), (100, 200)
MINUTES = 15  # of `tune`
PYKEEN_MODEL = "ComplEx"


def load(name: str) -> capse.Graph:
    import pykeen.datasets

    folder = Path(pykeen.datasets.__file__).parent / GRAPHS[name]
    graph = capse.load_graph(folder)
    return capse.Graph(name, graph.entities, graph.relations, graph.train, graph.valid, graph.test)


def default(graph: capse.Graph, seed: int) -> dict[str, Any]:
    """`capse train --data GRAPH`."""
    return _record(capse.fit(graph, training=capse.Training(seed=seed)))


def by_hand(graph: capse.Graph, seed: int) -> dict[str, Any]:
    """The best of a small grid."""

    def train(n3: float, rank: int, seed: int) -> capse.LinkPredictor:
        return capse.fit(
            graph,
            capse.ComplEx(dim=rank),
            regularizer=capse.Regularizer(n3=n3),
            training=capse.Training(seed=seed, epochs=100, batch_size=256),
            validation=capse.Validation(every=2, patience=5),
        )

    choices = list(itertools.product(HAND_N3, HAND_RANKS))
    n3, rank = max(choices, key=lambda choice: _validation(train(choice[0], choice[1], 0)))
    return _record(train(n3, rank, seed))


def tune(graph: capse.Graph, seed: int) -> dict[str, Any]:
    """`capse tune --data GRAPH --minutes 15`."""
    from capse.experiments.halving import tune_within

    with tempfile.TemporaryDirectory() as folder:
        best = tune_within(graph, minutes=MINUTES, out=f"{folder}/study", overrides=[f"training.seed={seed}"])[0]
        return _record(capse.LinkPredictor.load(best.run)) | {"chosen": best.settings}


def pykeen(graph: capse.Graph, seed: int, epochs: int | None = None) -> dict[str, Any]:
    """PyKEEN's pipeline with its defaults, which train for 5 epochs, or for longer."""
    from pykeen.pipeline import pipeline

    name = {"kinship": "Kinships", "umls": "UMLS", "nations": "Nations"}[graph.name]
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = pipeline(
            dataset=name,
            model=PYKEEN_MODEL,
            random_seed=seed,
            evaluation_kwargs={"use_tqdm": False},
            training_kwargs={"use_tqdm": False} | ({"num_epochs": epochs} if epochs else {}),
        )
    names = {"mr": "arithmetic_mean_rank", "mrr": "inverse_harmonic_mean_rank"} | {
        f"hits@{k}": f"hits_at_{k}" for k in (1, 3, 10)
    }
    figures = {key: result.metric_results.get_metric(f"both.realistic.{name}") for key, name in names.items()}
    return {"model": PYKEEN_MODEL, "test": figures}


METHODS: dict[str, Callable[[capse.Graph, int], dict[str, Any]]] = {
    "default": default,
    "by-hand": by_hand,
    "tune": tune,
    "pykeen": pykeen,
    "pykeen-100": partial(pykeen, epochs=100),
}


def _validation(run: capse.LinkPredictor) -> float:
    assert run.folder is not None
    results = json.loads(run.folder.results.read_text(encoding="utf-8"))
    return float(results["best_validation"]["mrr"])


def _record(run: capse.LinkPredictor) -> dict[str, Any]:
    assert run.folder is not None
    return {
        "recipe": run.folder.read_recipe(),
        "validation_mrr": _validation(run),
        "test": run.evaluate("test", intervals=False, breakdowns=False).metrics["both"]["realistic"],
    }


def main(names: list[str]) -> None:
    methods, graphs = ([name for name in known if name in names] or list(known) for known in (METHODS, GRAPHS))
    for seed, method, name in itertools.product(SEEDS, methods, graphs):
        file = RESULTS / f"{method}-{name}-{seed}.json"
        if file.exists():
            continue
        started = time.monotonic()
        found = METHODS[method](load(name), seed)
        seconds = round(time.monotonic() - started, 1)
        origin = provenance() | {"command": f"python -m benchmarks.held_out_graphs {method} {name}"}
        write_json(file, {"graph": name, "method": method, "seed": seed, **found, "seconds": seconds, **origin})
        print(f"{method}, {name}, seed {seed}: test MRR {found['test']['mrr']:.4f}, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
