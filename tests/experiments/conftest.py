"""A small graph, one thread, and the state that a run leaves behind."""

from __future__ import annotations

import pytest
from safetensors.torch import load_file

from capse.graph.dataset import Graph
from capse.runs.folder import RunFolder


@pytest.fixture(autouse=True, scope="module")
def in_one_thread(one_thread: None) -> None:
    """Tensors this small are done before a second thread has woken up."""


@pytest.fixture(scope="session")
def small() -> Graph:
    """20 entities on a ring under three relations: 40 training, 10 validation and 10 test triples."""
    steps = {"next": 1, "after next": 2, "opposite": 10}
    facts = [(f"e{i:02}", name, f"e{(i + step) % 20:02}") for name, step in steps.items() for i in range(20)]
    return Graph.from_triples(
        [fact for i, fact in enumerate(facts) if i % 6 < 4], facts[4::6], facts[5::6], name="small"
    )


@pytest.fixture(scope="session")
def weights_of():
    """The tensors in a run's model file, read by another program than ours."""
    return lambda path: load_file(RunFolder(path).model)
