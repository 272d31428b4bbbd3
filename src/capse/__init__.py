"""Knowledge graph completion with capsule networks (CapsE), evaluated honestly.

Load a graph, train a model on it, see how well it ranks held-out facts, and ask it for missing ones:

>>> import capse
>>> run = capse.fit("countries", capse.TransE(dim=20), training=capse.Training(epochs=2))
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
    "Answers": "capse.triples",
    "Calibration": "capse.graph.link_prediction.calibration",
    "CapsE": "capse.models.capse",
    "ComplEx": "capse.models.complex",
    "Contributions": "capse.models.base",
    "ConvE": "capse.models.conve",
    "ConvKB": "capse.models.convkb",
    "Dimensions": "capse.graph.link_prediction.explanation",
    "DistMult": "capse.models.distmult",
    "Documents": "capse.search.logs.documents",
    "Encoder": "capse.search.vectors.encoders",
    "Explanation": "capse.graph.link_prediction.explanation",
    "Fact": "capse.graph.link_prediction.explanation",
    "FactPath": "capse.graph.link_prediction.explanation",
    "Graph": "capse.graph.dataset",
    "LinkPredictionResult": "capse.graph.link_prediction.evaluation",
    "LinkPredictor": "capse.graph.link_prediction.predictor",
    "Listener": "capse.experiments.engine",
    "Loss": "capse.training.losses",
    "ModelSettings": "capse.models.base",
    "NearDocument": "capse.search.serving.reasons",
    "NearFact": "capse.graph.link_prediction.explanation",
    "Negatives": "capse.training.negatives",
    "Optimizer": "capse.training.optimizers",
    "PastDocument": "capse.search.users.user_state",
    "PersonalModel": "capse.models.personal",
    "Prediction": "capse.graph.link_prediction.completion",
    "Profile": "capse.search.users.profiles",
    "ProfileSettings": "capse.search.users.user_state",
    "RankedDocument": "capse.search.serving.reranker",
    "Ranker": "capse.search.evaluation.judged_lists",
    "Ranks": "capse.evaluation.ranks",
    "Reasons": "capse.search.serving.reasons",
    "Recipe": "capse.experiments.recipe",
    "Regularizer": "capse.training.regularizers",
    "Reranker": "capse.search.serving.reranker",
    "RunFolder": "capse.runs.folder",
    "STransE": "capse.models.stranse",
    "ScaledCapsE": "capse.models.scaled_capse",
    "Scorable": "capse.graph.link_prediction.ranking",
    "Scorer": "capse.models.base",
    "SearchLog": "capse.search.logs.search_log",
    "SearchRecipe": "capse.experiments.search.recipe",
    "SearchRun": "capse.search.rankers.search_run",
    "SearchValidation": "capse.experiments.search.recipe",
    "SharedTopic": "capse.search.serving.reasons",
    "Shown": "capse.training.list_objective",
    "ShownDocument": "capse.search.serving.reranker",
    "Start": "capse.experiments.recipe",
    "Statistics": "capse.graph.statistics",
    "StepReport": "capse.training.loop",
    "Topics": "capse.search.vectors.topics",
    "Training": "capse.training.settings",
    "TransD": "capse.models.transd",
    "TransE": "capse.models.transe",
    "TransH": "capse.models.transh",
    "TransR": "capse.models.transr",
    "TripleIndex": "capse.triples",
    "TripleModel": "capse.models.base",
    "UserState": "capse.search.users.user_state",
    "Validation": "capse.training.settings",
    "VectorSettings": "capse.search.vectors.vector_space",
    "VectorSpace": "capse.search.vectors.vector_space",
    "VectorTable": "capse.search.vectors.vector_files",
    "Vectors": "capse.search.vectors.vector_space",
    "Vocabulary": "capse.graph.vocabulary",
    "describe": "capse.graph.statistics",
    "evaluate": "capse.graph.link_prediction.evaluation",
    "fit": "capse.experiments.fit",
    "fit_search": "capse.experiments.search.fit",
    "load": "capse.experiments.loading",
    "load_graph": "capse.graph.dataset",
    "load_recipe": "capse.experiments.recipe",
    "load_search_recipe": "capse.experiments.search.recipe",
    "predict_file": "capse.graph.link_prediction.completion",
    "read_graph": "capse.graph.dataset",
    "save_graph": "capse.graph.writing",
    "split_graph": "capse.graph.splits",
}

__all__ = ["CapseError", "__version__", "errors", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'capse' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
