"""What makes a graph another one to a training."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from capse.graph.columns import digest_of
from capse.graph.dataset import Graph


def identity(graph: Graph) -> Iterator[bytes]:
    """All of a graph that a training depends on."""
    if graph.columns is not None:
        yield from digest_of(graph)
        return
    for vocabulary in (graph.entities, graph.relations):
        yield "\n".join(vocabulary.labels).encode()
    for split in (graph.train, graph.valid):
        yield np.ascontiguousarray(split).tobytes()
    if "train" in graph.weights:
        yield graph.weights["train"].tobytes()
    if graph.values is not None:
        yield repr(graph.values.to_pylist()).encode()
