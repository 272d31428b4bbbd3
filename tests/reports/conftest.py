"""A small graph with hostile labels, and runs trained on it."""

from __future__ import annotations

import pytest

from capse.experiments.fit import fit
from capse.experiments.recipe import Recipe
from capse.graph.dataset import Graph

HOSTILE = "<script>alert('x')</script> & \"$5_{}$\" 村"


@pytest.fixture(scope="session")
def hostile_graph():
    """A ring of 12 entities under two relations, one of them with a label that must not get out of its cell."""
    names = [f"e{i:02}" for i in range(11)] + [HOSTILE]
    near = [(names[i], HOSTILE, names[(i + 1) % 12]) for i in range(12)]
    far = [(names[i], "far", names[(i + 5) % 12]) for i in range(12)]
    return Graph.from_triples(near[:8] + far[:8], near[8:10] + far[8:10], near[10:] + far[10:], name="<i>ring</i>")


@pytest.fixture(scope="session")
def runs(hostile_graph, tmp_path_factory):
    """Two trained runs of different models."""
    folder = tmp_path_factory.mktemp("runs")
    options = ["model.dim=8", "training.epochs=4", "validation.every=2"]
    for model in ("transe", "capse"):
        fit(hostile_graph, Recipe.resolve(model=model, overrides=options), out=folder / model)
    return [folder / "transe", folder / "capse"]
