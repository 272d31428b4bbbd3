"""Bytes that each process of a group sends in a step: FILE."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch

from capse.models import build_model, model_settings
from capse.processes.group import joined
from capse.training.batches import draw_epoch
from capse.training.by_rows.learner import Division, RowLearner
from capse.training.losses import Loss
from capse.training.negatives import Negatives
from capse.training.objectives import build_objective
from capse.training.optimizers import Optimizer
from capse.training.regularizers import Regularizer
from capse.training.settings import Training

ENTITIES, RELATIONS, DIM, BATCH, STEPS = 60_000, 5, 16, 256, 4
SHARED, UNIFORM = Negatives(sampler="shared", count=128), Negatives(sampler="uniform", count=4)
ALL = Negatives(sampler="all")
FORMS = {"shared": SHARED, "uniform": UNIFORM, "all": ALL}


def sent(form: str, division: Division) -> float:
    """Bytes a step, on average."""
    loss = Loss(name="softmax") if form != "uniform" else Loss(name="softplus")
    model = build_model(model_settings({"name": "complex", "dim": DIM}), ENTITIES, RELATIONS)
    triples = np.random.default_rng(0).integers([ENTITIES, RELATIONS, ENTITIES], size=(BATCH * STEPS, 3))
    if shards := division.shards(ENTITIES):
        model.keep_rows(shards.own)
    objective = build_objective(model, triples, loss, FORMS[form], Regularizer())
    training = Training(batch_size=BATCH)
    learner = RowLearner(objective, training, Optimizer(name="adagrad"), division)
    epoch = draw_epoch(learner.examples, 0, draw="shuffle", batch_size=BATCH, seed=0, device=torch.device("cpu"))
    before = division.group.sent
    for step in range(STEPS):
        learner.step(epoch, step, 0.1)
    return (division.group.sent - before) / STEPS


if __name__ == "__main__":
    with joined(60) as everyone:
        found = {
            f"{form}, {way}": sent(form, Division(8, everyone, sharded=way == "rows"))
            for form in FORMS
            for way in ("rows", "data")
        }
        Path(f"{sys.argv[1]}-{everyone.rank}.json").write_text(json.dumps(found))
