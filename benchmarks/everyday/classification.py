"""Is this fact true? ComplEx of a size that a CPU trains, judged on hard negatives of the test sets, three seeds.

Runs are looked for in $CAPSE_RUNS/complex-DATA-SEED, and trained where they are not there.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import capse
from capse.graph.link_prediction.classification import fit_classifier, judged_scores
from capse.graph.link_prediction.hard_negatives import hard_negatives
from capse.graph.link_prediction.predictor import LinkPredictor

EPOCHS = {"wn18rr": 8, "fb15k-237": 3}  # minutes on one core
SEEDS = (0, 1, 2)


def run() -> dict[str, Any]:
    return {"model": settings("DATA"), "rows": [_row(data, seed) for data in EPOCHS for seed in SEEDS]}


def settings(data: str) -> str:
    """The command that trains the runs."""
    epochs = EPOCHS.get(data, "/".join(map(str, EPOCHS.values())))
    return (
        f"capse train complex --data {data} --set model.dim=64 --set training.epochs={epochs} "
        "--set training.batch_size=2048 --set training.learning_rate=0.3 "
        "--set negatives.sampler=shared --set negatives.count=512 "
        "--set validation.every=0"
    )


def trained(data: str, seed: int, graph: capse.Graph | None = None, name: str = "complex") -> LinkPredictor:
    """A run with these settings: one that is there already, or made now."""
    path = Path(os.environ.get("CAPSE_RUNS", "runs")) / f"{name}-{data}-{seed}"
    if not (path / "model.safetensors").is_file():
        capse.fit(
            graph or data,
            capse.ComplEx(dim=64, reciprocal=True),
            training=capse.Training(epochs=EPOCHS[data], batch_size=2048, learning_rate=0.3, seed=seed),
            negatives=capse.Negatives(sampler="shared", count=512),
            validation=capse.Validation(every=0),
            out=path,
        )
    return LinkPredictor.load(path)


def _row(data: str, seed: int) -> dict[str, Any]:
    run = trained(data, seed)
    graph = run.graph
    started = time.perf_counter()
    chosen = fit_classifier(run, seed=seed)
    seconds = time.perf_counter() - started
    false, found = hard_negatives(graph, graph.test, graph.known, seed=seed + 1000)
    triples = np.concatenate([graph.test[found], false[found]]).astype(np.int64)
    scores, true = judged_scores(run, triples), np.arange(len(triples)) < found.sum()
    judged = chosen.judge(scores, triples[:, 1], true)
    random = run.calibrate(seed)
    plain = random.probability(run.score_ids(triples))
    return {
        "data": data,
        "seed": seed,
        "mrr": run.evaluate("test", intervals=False, breakdowns=False).metrics["both"]["realistic"]["mrr"],
        "judgements": judged.to_json(),
        "left_out": int((~found).sum()),
        "held_out": chosen.held_out,
        "prior": chosen.prior,
        "seconds": round(seconds, 1),
        "fitted_to_random_corruptions": {
            "stated_error": random.expected_calibration_error,
            "error": capse.Judgements.of(scores, plain, plain >= 0.5, plain >= 0.5, true).to_json(),
        },
    }
