"""A small graph and models on it, on one thread: tensors this small are done before a second one has woken up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from capse.models import TripleModel, build_model, model_settings
from capse.training.adversarial_learner import AdversarialLearner
from capse.training.adversary import AdversarialObjective, Adversary
from capse.training.checkpoints import Checkpoints
from capse.training.learner import GradientLearner, Learner
from capse.training.loop import Trainer
from capse.training.objectives import Objective
from capse.training.optimizers import Optimizer
from capse.training.settings import Training, Validation

ENTITIES, RELATIONS = 12, 3


@pytest.fixture(autouse=True, scope="module")
def in_one_thread(one_thread: None) -> None:
    """Tensors this small are done before a second thread has woken up."""


@pytest.fixture
def triples() -> np.ndarray:
    """30 distinct triples over 12 entities and 3 relations, some with many answers."""
    rng = np.random.default_rng(3)
    drawn = np.stack([rng.integers(ENTITIES, size=60), rng.integers(RELATIONS, size=60), rng.integers(5, size=60)], 1)
    return np.unique(drawn, axis=0)[:30]


@pytest.fixture
def make_model():
    """Builds a model of the small graph, every number of it random and none of them tiny."""

    def make(name: str = "distmult", seed: int = 0, **settings: object) -> TripleModel:
        filled = model_settings({"name": name, "dim": 4, "reciprocal": False, **settings})
        model = build_model(filled, ENTITIES, RELATIONS, seed)
        with torch.no_grad():
            for tensor in (model.entities, model.relations):
                tensor.normal_(0, 0.7, generator=torch.Generator().manual_seed(seed))
        return model

    return make


@pytest.fixture
def trainer_of(tmp_path):
    """Builds a trainer of an objective that never validates; settings are those of the section ``training``."""

    def make(
        objective: Objective, optimizer: Optimizer | None = None, adversary: Adversary | None = None, **settings: Any
    ) -> Trainer:
        training, optimizer = Training(**settings), optimizer or Optimizer()
        learner: Learner
        if isinstance(objective, AdversarialObjective):
            assert adversary is not None
            learner = AdversarialLearner(objective, training, optimizer, adversary)
        else:
            learner = GradientLearner(objective, training, optimizer)
        checkpoints = Checkpoints(tmp_path / "checkpoints", "x")
        return Trainer(learner, training, optimizer, Validation(every=0), checkpoints)

    return make
