"""Training steps on a GPU: recorded and replayed, against the same kernels launched one by one.

Run with ``python -m benchmarks.gpu_training [RESULT.json]`` on a machine with a CUDA device; it takes half a minute.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from capse.models import build_model, model_settings
from capse.runs.atomic import write_json
from capse.runs.records import provenance
from capse.training.checkpoints import Checkpoints
from capse.training.learner import GradientLearner
from capse.training.loop import Trainer
from capse.training.losses import Loss
from capse.training.negatives import Negatives
from capse.training.objectives import build_objective
from capse.training.optimizers import Optimizer
from capse.training.regularizers import Regularizer
from capse.training.settings import Training, Validation

WN18RR, FB15K237 = (40_943, 11, 86_835), (14_541, 237, 272_115)  # entities, relations, training triples
CASES: dict[str, tuple[dict[str, Any], tuple[int, int, int]]] = {
    "transe, fb15k-237": ({"name": "transe"}, FB15K237),
    "capse, N = 50, fb15k-237": ({"name": "capse"}, FB15K237),
    "capse, N = 50, m = 3, fb15k-237": ({"name": "capse", "routing": 3}, FB15K237),
    "convkb, N = 100, fb15k-237": ({"name": "convkb", "filters": 100}, FB15K237),
    "capse, N = 400, wn18rr": ({"name": "capse", "filters": 400}, WN18RR),
}


def run() -> dict[str, Any]:
    """Milliseconds a step, batches of 128 with one negative each, Adam."""
    measured = {}
    for name, (model, sizes) in CASES.items():
        replayed, launched = _trainer(model, *sizes), _trainer(model, *sizes)
        launched.learner.quick_step = None
        milliseconds = {"replayed": _time(replayed, 1024), "launched": _time(launched, 200)}
        measured[name] = milliseconds | {"ratio": milliseconds["launched"] / milliseconds["replayed"]}
    origin = provenance() | {"command": "python -m benchmarks.gpu_training"}
    return {"milliseconds": measured, **origin}


def _trainer(model: dict[str, Any], entities: int, relations: int, count: int) -> Trainer:
    """One over random triples, of which there are as many as in the data set."""
    generator = np.random.default_rng(0)
    columns = [generator.integers(high, size=count) for high in (entities, relations, entities)]
    settings = model_settings({"dim": 100, **model})
    network = build_model(settings, entities, relations).to("cuda")
    parts = Loss(), Negatives("bernoulli"), Regularizer()
    objective = build_objective(network, np.unique(np.stack(columns, 1), axis=0), *parts)
    training = Training(batch_size=128, learning_rate=1e-3, checkpoint_seconds=float("inf"))
    return Trainer(
        GradientLearner(objective, training, Optimizer()),
        training,
        Optimizer(),
        Validation(every=0),
        Checkpoints(Path(tempfile.mkdtemp()), "benchmark"),
    )


def _time(trainer: Trainer, steps: int) -> float:
    """Milliseconds of one of ``steps`` steps, after some to warm up; the first epoch's, over and over."""
    epoch = trainer._epoch(0)
    trainer.learner.train(True)
    for count in (steps // 8, steps):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(count):
            trainer.position.step %= trainer.steps
            trainer._step(epoch)
        torch.cuda.synchronize()
    return (time.perf_counter() - started) / steps * 1e3


def main(arguments: list[str]) -> None:
    measured = run()
    for name, numbers in measured["milliseconds"].items():
        print(f"{name:34}", *(f"{key} {number:.3g}" for key, number in numbers.items()), sep="  ")
    if arguments:
        write_json(Path(arguments[0]), measured)


if __name__ == "__main__":
    main(sys.argv[1:])
