"""The scoring functions, one file each, and the registry that recipes name them by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from capse.errors import SettingsError, UnknownNameError
from capse.models.base import Model, ModelSettings, Scorer, TripleModel
from capse.models.bilinear import BilinearSettings
from capse.models.capse import CapsE, CapsESettings
from capse.models.complex import ComplEx
from capse.models.conve import ConvE, ConvESettings
from capse.models.convkb import ConvKB, ConvKBSettings
from capse.models.distmult import DistMult
from capse.models.personal import PersonalModel
from capse.models.stranse import STransE
from capse.models.transd import TransD
from capse.models.transe import TransE
from capse.models.transh import TransH
from capse.models.translation import TranslationSettings
from capse.models.transr import TransR
from capse.runs.settings import fill

MODELS: dict[str, Any] = {  # name -> Scorer class, constructed from its Settings
    "capse": CapsE,
    "convkb": ConvKB,
    "conve": ConvE,
    "transe": TransE,
    "transh": TransH,
    "transr": TransR,
    "transd": TransD,
    "stranse": STransE,
    "distmult": DistMult,
    "complex": ComplEx,
}


def scorer_class(name: str) -> Any:
    """The scorer registered under ``name``."""
    if name not in MODELS:
        raise UnknownNameError("model", name, MODELS, remedy="choose one of " + ", ".join(MODELS))
    return MODELS[name]


def model_settings(section: Mapping[str, Any]) -> tuple[str, ModelSettings]:
    """The name and the settings in a recipe's ``model`` section.

    >>> model_settings({"name": "transe", "norm": 2})
    ('transe', TranslationSettings(dim=100, reciprocal=False, norm=2, unit_ball=True, vector_start='uniform'))
    """
    name = str(section.get("name", "capse"))
    values = {key: value for key, value in section.items() if key != "name"}
    return name, fill(scorer_class(name).Settings, values, "model")


def build_model(name: str, settings: ModelSettings, entities: int, relations: int, seed: int = 0) -> TripleModel:
    """A fresh model on the CPU; the same seed gives the same weights on every machine.

    >>> model = build_model("transe", TranslationSettings(dim=4), entities=10, relations=2)
    >>> model.score_tails(torch.tensor([0, 1]), torch.tensor([0, 1])).shape
    torch.Size([2, 10])
    """
    scorer = scorer_class(name)
    if not isinstance(settings, scorer.Settings):
        raise SettingsError(
            f"{type(settings).__name__} are not the settings of {name}", f"give {scorer.Settings.__name__}"
        )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return TripleModel(scorer(settings), entities, relations, reciprocal=settings.reciprocal)


__all__ = [
    "MODELS",
    "BilinearSettings",
    "CapsE",
    "CapsESettings",
    "ComplEx",
    "ConvE",
    "ConvESettings",
    "ConvKB",
    "ConvKBSettings",
    "DistMult",
    "Model",
    "ModelSettings",
    "PersonalModel",
    "STransE",
    "Scorer",
    "TransD",
    "TransE",
    "TransH",
    "TransR",
    "TranslationSettings",
    "TripleModel",
    "build_model",
    "model_settings",
    "scorer_class",
]
