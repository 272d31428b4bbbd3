"""Knowledge graphs: vocabularies, readers and writers, benchmarks, statistics."""

from capse.graph.dataset import Graph, load_graph
from capse.graph.vocabulary import Vocabulary

__all__ = ["Graph", "Vocabulary", "load_graph"]
