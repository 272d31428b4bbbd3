"""A graph in which a fact the other way round decides, and a model that knows nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from capse import DistMult
from capse.graph.dataset import Graph
from capse.graph.refinement.features import Features
from capse.graph.refinement.refined_model import RefinedModel
from capse.graph.refinement.settings import Refinement
from capse.models import build_model
from capse.models.base import TripleModel


@pytest.fixture
def borders() -> Graph:
    """Countries that border each other, both ways but for one; and what lies in Europe."""
    pairs = [
        ("France", "Spain"),
        ("France", "Italy"),
        ("Spain", "Portugal"),
        ("Italy", "Austria"),
        ("Austria", "Hungary"),
    ]
    train = [(a, "borders", b) for a, b in pairs] + [(b, "borders", a) for a, b in pairs[1:]]
    train += [(a, "lies in", "Europe") for a in ("France", "Italy", "Austria")] + [("Europe", "has", "France")]
    return Graph.from_triples(train, test=[("Spain", "borders", "France")], name="borders")


def flat_model(graph: Graph) -> TripleModel:
    """A model with slightly different scores, whatever the question."""
    model = build_model(DistMult(dim=1), len(graph.entities), len(graph.relations))
    with torch.no_grad():
        model.relations.fill_(1)
        model.entities.copy_(1 + 0.01 * torch.arange(len(graph.entities))[:, None])
    return model


def refined_by(graph: Graph, base: TripleModel, weights: dict[int, float], **settings) -> RefinedModel:
    """A model with these weights, all others being 0."""
    chosen = Refinement(**settings)
    features = Features.of(graph.train, len(graph.entities), len(graph.relations), chosen.relations)
    model = RefinedModel(base, features, chosen, features.kept(chosen))
    places = np.searchsorted(model.motifs.keys.numpy(), list(weights))
    model.motifs.values[torch.from_numpy(places)] = torch.tensor(list(weights.values()), dtype=torch.float64)
    return model
