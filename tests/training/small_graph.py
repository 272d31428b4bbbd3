"""A graph that is small enough to see through, and models on it."""

from __future__ import annotations

import numpy as np
import torch

from capse.models import TripleModel, build_model, model_settings

ENTITIES, RELATIONS = 12, 3


def draw_triples() -> np.ndarray:
    """30 distinct triples over 12 entities and 3 relations, some with many answers."""
    rng = np.random.default_rng(3)
    drawn = np.stack([rng.integers(ENTITIES, size=60), rng.integers(RELATIONS, size=60), rng.integers(5, size=60)], 1)
    return np.unique(drawn, axis=0)[:30]


def random_model(name: str = "distmult", seed: int = 0, **settings: object) -> TripleModel:
    """A model of that graph, every number of it random and none of them tiny."""
    filled = model_settings({"name": name, "dim": 4, "reciprocal": False, **settings})
    model = build_model(filled, ENTITIES, RELATIONS, seed)
    with torch.no_grad():
        for tensor in (model.entities, model.relations):
            tensor.normal_(0, 0.7, generator=torch.Generator().manual_seed(seed))
    return model
