"""A small graph and models on it, on one thread: tensors this small are done before a second one has woken up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from capse.training.adversarial_learner import AdversarialLearner
from capse.training.adversary import AdversarialObjective, Adversary
from capse.training.checkpoints import Checkpoints
from capse.training.learner import GradientLearner, Learner
from capse.training.loop import Trainer
from capse.training.objectives import Objective
from capse.training.optimizers import Optimizer
from capse.training.settings import Training, Validation
from tests.training.small_graph import draw_triples, random_model


@pytest.fixture(autouse=True, scope="module")
def in_one_thread(one_thread: None) -> None:
    """Tensors this small are done before a second thread has woken up."""


@pytest.fixture
def triples() -> np.ndarray:
    return draw_triples()


@pytest.fixture
def make_model():
    """Builds models of that graph."""
    return random_model


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
