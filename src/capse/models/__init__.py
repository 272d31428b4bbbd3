"""The scoring functions, one file each, and the registry that recipes name them by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from capse.errors import SettingsError
from capse.models.base import Model, ModelSettings, Scorer, TripleModel
from capse.models.personal import PersonalModel
from capse.registry import Registry
from capse.runs.formats import as_named_today
from capse.runs.settings import fill

MODELS: Registry[type[Scorer]] = Registry(
    "model",
    "capse.models",
    {
        "capse": "capse.models.capse:CapsEScorer",
        "scaled-capse": "capse.models.scaled_capse:ScaledCapsEScorer",
        "convkb": "capse.models.convkb:ConvKBScorer",
        "conve": "capse.models.conve:ConvEScorer",
        "transe": "capse.models.transe:TransEScorer",
        "transh": "capse.models.transh:TransHScorer",
        "transr": "capse.models.transr:TransRScorer",
        "transd": "capse.models.transd:TransDScorer",
        "stranse": "capse.models.stranse:STransEScorer",
        "distmult": "capse.models.distmult:DistMultScorer",
        "complex": "capse.models.complex:ComplExScorer",
    },
)


def name_of(settings: ModelSettings) -> str:
    """The name that the model with these settings is registered under.

    >>> from capse import TransE
    >>> name_of(TransE(dim=50))
    'transe'
    """
    for name in MODELS:
        if MODELS[name].Settings is type(settings):
            return name
    raise SettingsError(
        f"{type(settings).__name__} is not the settings of a model", "register its scorer: see capse.registry"
    )


def model_settings(section: Mapping[str, Any]) -> ModelSettings:
    """The settings in a recipe's ``model`` section; CapsE's where it names none.

    >>> model_settings({"name": "transe", "norm": 2})
    TransE(dim=100, reciprocal=False, norm=2, unit_ball=True, vector_start='uniform')
    """
    values = as_named_today({"name": "capse", **section})
    return fill(MODELS[str(values.pop("name"))].Settings, values, "model")


def build_model(settings: ModelSettings, entities: int, relations: int, seed: int = 0) -> TripleModel:
    """A fresh model on the CPU; the same seed gives the same weights on every machine.

    >>> from capse import TransE
    >>> model = build_model(TransE(dim=4), entities=10, relations=2)
    >>> model.score_tails(torch.tensor([0, 1]), torch.tensor([0, 1])).shape
    torch.Size([2, 10])
    """
    scorer = MODELS[name_of(settings)]
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = TripleModel(scorer(settings), entities, relations, reciprocal=settings.reciprocal)
    model.settings = settings
    return model


__all__ = [
    "MODELS",
    "Model",
    "ModelSettings",
    "PersonalModel",
    "Scorer",
    "TripleModel",
    "build_model",
    "model_settings",
    "name_of",
]
