"""Filtered ranking of both sides of FB15k-237's test set: capse against PyKEEN, same weights, same process.

Run with ``CAPSE_DATA=... python benchmarks/evaluation_speed.py``; it takes a few minutes on two cores.
"""

from __future__ import annotations

import json
import logging
import statistics
import time
import warnings
from typing import Any

import numba
import numpy as np
import torch

from capse import DistMult, TransE
from capse.graph.dataset import Graph, load_graph
from capse.graph.link_prediction.evaluation import evaluate
from capse.models import TripleModel, build_model

THREADS = 2
DIM = 100
REPEATS = 3  # full runs of ours before PyKEEN's, and again after them
SETTINGS = {"distmult": DistMult(dim=DIM), "transe": TransE(dim=DIM, norm=1)}
BATCH_SIZES = (None, 64, 128, 256)  # PyKEEN's, tried on a few triples; None is its automatic one
TRIAL_TRIPLES = 512


def run() -> dict[str, Any]:
    """Seconds of both for the whole test set, their ratio, and the MRR that each found."""
    torch.set_num_threads(THREADS)
    numba.set_num_threads(THREADS)
    for name in ("pykeen", "torch_max_mem", "pykeen.utils"):
        logging.getLogger(name).setLevel(logging.ERROR)
    graph = load_graph("fb15k-237")
    return {
        "task": f"filtered ranks of both sides of {len(graph.test):,} FB15k-237 test triples, k = {DIM}",
        "threads": THREADS,
        "models": {name: _compare(name, graph) for name in SETTINGS},
    }


def _compare(name: str, graph: Graph) -> dict[str, Any]:
    model = build_model(SETTINGS[name], len(graph.entities), len(graph.relations))
    results = [evaluate(model, graph, intervals=False, breakdowns=False) for _ in range(REPEATS)]
    theirs = _pykeen(name, model, graph)
    results += [evaluate(model, graph, intervals=False, breakdowns=False) for _ in range(REPEATS)]
    ours = statistics.median(result.seconds for result in results)
    return {
        "ratio": theirs["seconds"] / ours,
        "capse": {
            "seconds": ours,
            "all_seconds": [result.seconds for result in results],
            "mrr": results[0].metrics["both"]["realistic"]["mrr"],
        },
        "pykeen": theirs,
    }


def _pykeen(name: str, model: TripleModel, graph: Graph) -> dict[str, Any]:
    """PyKEEN's own model with our weights in its own evaluator, at the best of several batch sizes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pykeen import models
        from pykeen.evaluation import RankBasedEvaluator
        from pykeen.triples import CoreTriplesFactory

    train, valid, test = (torch.from_numpy(graph.split(s).astype(np.int64)) for s in ("train", "valid", "test"))
    factory = CoreTriplesFactory(train, num_entities=len(graph.entities), num_relations=len(graph.relations))
    if name == "distmult":
        theirs = models.DistMult(triples_factory=factory, embedding_dim=DIM, random_seed=0)
    else:
        theirs = models.TransE(triples_factory=factory, embedding_dim=DIM, scoring_fct_norm=1, random_seed=0)
    theirs.entity_representations[0]._embeddings.weight.data.copy_(model.entities.data)
    theirs.relation_representations[0]._embeddings.weight.data.copy_(model.relations.data)

    def timed(triples: torch.Tensor, batch_size: int | None) -> tuple[float, float]:
        started = time.perf_counter()
        result = RankBasedEvaluator(filtered=True).evaluate(
            theirs,
            triples,
            batch_size=batch_size,
            use_tqdm=False,
            additional_filter_triples=[train, valid, test],
        )
        return time.perf_counter() - started, result.get_metric("both.realistic.inverse_harmonic_mean_rank")

    timed(test[:32], 32)  # warms up
    trial = test[np.random.default_rng(0).permutation(len(test))[:TRIAL_TRIPLES]]
    trials = {batch_size: min(timed(trial, batch_size)[0] for _ in range(2)) for batch_size in BATCH_SIZES}
    best = min(BATCH_SIZES, key=lambda batch_size: trials[batch_size])
    seconds, mrr = timed(test, best)  # once, as it takes minutes
    return {
        "seconds": seconds,
        "mrr": mrr,
        "batch_size": best or "automatic",
        "trial_seconds": {str(batch_size or "automatic"): took for batch_size, took in trials.items()},
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
