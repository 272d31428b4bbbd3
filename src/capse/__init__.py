"""Knowledge graph completion with capsule networks (CapsE), evaluated honestly.

Load a graph, train a model on it, see how well it ranks held-out facts, and ask it for missing ones:

>>> import capse, tempfile
>>> run = capse.fit("countries", "demo-transe", out=tempfile.mkdtemp() + "/run", overrides=["training.epochs=2"])
>>> result = run.evaluate("test")
>>> result.triples, sorted(result.metrics["both"])
(311, ['expected', 'optimistic', 'pessimistic', 'realistic'])
>>> len(run.predict(relation="borders", head="Kenya", top=3))
3

What is not listed in ``__all__`` may change without notice. Names are imported when they are first used, so that
``import capse`` and ``capse --help`` do not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from capse import errors
from capse.errors import CapseError

__version__ = "0.1.0"

# Where each lazy name lives. Types are in __init__.pyi: an import here, even for types only, would let every module
# that asks for the version depend on all of the package.
_HOMES = {
    "Explanation": "capse.graph.explanation",
    "Graph": "capse.graph.dataset",
    "LinkPredictionResult": "capse.graph.link_prediction",
    "LinkPredictor": "capse.graph.predictor",
    "Listener": "capse.experiments.fit",
    "Prediction": "capse.graph.prediction",
    "RankedDocument": "capse.search.reranker",
    "Recipe": "capse.experiments.recipe",
    "Reranker": "capse.search.reranker",
    "SearchLog": "capse.search.log",
    "ShownDocument": "capse.search.reranker",
    "UserState": "capse.search.live",
    "describe": "capse.graph.statistics",
    "evaluate": "capse.graph.link_prediction",
    "fit": "capse.experiments.fit",
    "fit_search": "capse.experiments.search.fit",
    "load_graph": "capse.graph.dataset",
    "load_recipe": "capse.experiments.recipe",
    "predict_file": "capse.graph.prediction",
    "read_graph": "capse.graph.dataset",
    "save_graph": "capse.graph.writing",
    "split_graph": "capse.graph.splits",
}

__all__ = ["CapseError", "__version__", "errors", "load", *_HOMES]


def __getattr__(name: str) -> Any:
    if name == "load":
        return __getattr__("LinkPredictor").load
    if name not in _HOMES:
        raise AttributeError(f"module 'capse' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
