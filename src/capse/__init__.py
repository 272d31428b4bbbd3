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
    "Actions": "capse.search.logs.actions",
    "Adversary": "capse.training.adversary",
    "Answers": "capse.triples",
    "Calibration": "capse.graph.link_prediction.calibration",
    "Candidates": "capse.graph.link_prediction.candidates",
    "CapsE": "capse.models.capse",
    "Carrier": "capse.graph.link_prediction.explanation",
    "Classifier": "capse.graph.link_prediction.classification",
    "ComplEx": "capse.models.complex",
    "ComplexCapsE": "capse.models.complex_capse",
    "Contributions": "capse.models.base",
    "ConvE": "capse.models.conve",
    "ConvKB": "capse.models.convkb",
    "Decisions": "capse.evaluation.judgements",
    "Dimensions": "capse.graph.link_prediction.explanation",
    "DistMult": "capse.models.distmult",
    "DocumentText": "capse.search.users.user_state",
    "Documents": "capse.search.logs.documents",
    "Encoder": "capse.search.vectors.encoders",
    "EventWeights": "capse.search.logs.actions",
    "Everyone": "capse.search.users.everyone",
    "Explanation": "capse.graph.link_prediction.explanation",
    "Fact": "capse.graph.link_prediction.explanation",
    "FactPath": "capse.graph.link_prediction.explanation",
    "FieldSchema": "capse.search.logs.field_schema",
    "FoldIn": "capse.graph.fold_in",
    "Graph": "capse.graph.dataset",
    "Group": "capse.processes.group",
    "Judgements": "capse.evaluation.judgements",
    "LinkPredictionResult": "capse.graph.link_prediction.evaluation",
    "LinkPredictor": "capse.graph.link_prediction.predictor",
    "Listed": "capse.graph.link_prediction.candidates",
    "Listener": "capse.experiments.listening",
    "Listeners": "capse.experiments.listening",
    "LogFields": "capse.search.logs.log_fields",
    "Loss": "capse.training.losses",
    "ModelSettings": "capse.models.base",
    "MotifReason": "capse.graph.refinement.reasons",
    "Moved": "capse.graph.refinement.reasons",
    "NearDocument": "capse.search.serving.reasons",
    "NearFact": "capse.graph.link_prediction.explanation",
    "Negatives": "capse.training.negatives",
    "Neighbour": "capse.graph.link_prediction.neighbours",
    "Optimizer": "capse.training.optimizers",
    "PastAction": "capse.search.users.user_state",
    "PastClick": "capse.search.users.user_state",
    "Patterns": "capse.graph.patterns",
    "PersonalModel": "capse.models.personal",
    "PredictedRelation": "capse.graph.link_prediction.completion",
    "PositionBias": "capse.search.bias.settings",
    "Prediction": "capse.graph.link_prediction.completion",
    "ProfileSettings": "capse.search.users.user_state",
    "PublicClick": "capse.search.users.everyone",
    "RankedDocument": "capse.search.serving.reranker",
    "Ranker": "capse.search.evaluation.judged_lists",
    "Ranks": "capse.evaluation.ranks",
    "Reasons": "capse.search.serving.reasons",
    "Recipe": "capse.experiments.recipe",
    "RefineRecipe": "capse.experiments.refine_recipe",
    "Refinement": "capse.graph.refinement.settings",
    "Regularizer": "capse.training.regularizers",
    "RelationPattern": "capse.graph.patterns",
    "ReliabilityBin": "capse.evaluation.judgements",
    "Removal": "capse.graph.link_prediction.explanation",
    "Reranker": "capse.search.serving.reranker",
    "RuleSupport": "capse.graph.link_prediction.explanation",
    "Rules": "capse.models.rules",
    "RunFolder": "capse.runs.folder",
    "STransE": "capse.models.stranse",
    "Sampled": "capse.graph.link_prediction.candidates",
    "ScaledCapsE": "capse.models.scaled_capse",
    "Scorable": "capse.graph.link_prediction.ranking",
    "Scorer": "capse.models.base",
    "SearchLog": "capse.search.logs.search_log",
    "SearchRecipe": "capse.experiments.search.recipe",
    "SearchRun": "capse.search.rankers.search_run",
    "SearchValidation": "capse.experiments.search.recipe",
    "Seen": "capse.graph.link_prediction.candidates",
    "SharedTopic": "capse.search.serving.reasons",
    "Shown": "capse.training.list_objective",
    "ShownDocument": "capse.search.serving.list_scorers",
    "Standing": "capse.search.rankers.standing",
    "Start": "capse.experiments.recipe",
    "Statistics": "capse.graph.statistics",
    "StepReport": "capse.training.loop",
    "TextSets": "capse.search.logs.field_values",
    "Topics": "capse.search.vectors.topics",
    "Training": "capse.training.settings",
    "TrainingPast": "capse.search.rankers.training_past",
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
    "Verdict": "capse.graph.link_prediction.classification",
    "Vocabulary": "capse.graph.vocabulary",
    "describe": "capse.graph.statistics",
    "evaluate": "capse.graph.link_prediction.evaluation",
    "fit": "capse.experiments.fit",
    "fit_search": "capse.experiments.search.fit",
    "fold_in_texts": "capse.experiments.new_texts",
    "from_pykeen": "capse.graph.exchange.pykeen",
    "inductive_split": "capse.graph.inductive",
    "load": "capse.experiments.loading",
    "load_graph": "capse.graph.dataset",
    "load_recipe": "capse.experiments.recipe",
    "load_search_recipe": "capse.experiments.search.recipe",
    "predict_file": "capse.graph.link_prediction.completion",
    "read_graph": "capse.graph.dataset",
    "refine": "capse.experiments.refine",
    "retrain_without": "capse.experiments.removal",
    "save_graph": "capse.graph.writing",
    "split_graph": "capse.graph.splits",
    "to_pykeen": "capse.graph.exchange.pykeen",
}

__all__ = ["CapseError", "__version__", "errors", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'capse' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
