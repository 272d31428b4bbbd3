"""The scoring functions, one file each, and the registry that recipes name them by."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch

from capse.errors import SettingsError
from capse.models.base import Allocate, Model, ModelSettings, Scorer, TripleModel
from capse.models.personal import PersonalModel
from capse.models.rules import RuleModel, Rules
from capse.registry import Registry
from capse.runs.formats import as_named_today
from capse.runs.memory import check_memory, is_out_of_memory
from capse.runs.settings import fill

MODELS: Registry[type[Scorer]] = Registry(
    "model",
    "capse.models",
    {
        "capse": "capse.models.capse:CapsEScorer",
        "scaled-capse": "capse.models.scaled_capse:ScaledCapsEScorer",
        "complex-capse": "capse.models.complex_capse:ComplexCapsEScorer",
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

# Models without vectors, which are counted and not trained.
BASELINES: Registry[type[RuleModel]] = Registry("model", "capse.baselines", {"rules": "capse.models.rules:RuleModel"})


def kind_of(name: str) -> type[Scorer] | type[RuleModel]:
    """The class of a model by its name, with its settings and its source."""
    return BASELINES[name] if name in BASELINES else MODELS[name]


def name_of(settings: ModelSettings) -> str:
    """The name that the model with these settings is registered under.

    >>> from capse import TransE
    >>> name_of(TransE(dim=50))
    'transe'
    """
    for name in (*MODELS, *BASELINES):
        if kind_of(name).Settings is type(settings):
            return name
    raise SettingsError(
        f"{type(settings).__name__} is not the settings of a model", "register its scorer: see capse.registry"
    )


def model_settings(section: Mapping[str, Any]) -> ModelSettings:
    """The settings in a recipe's ``model`` section; CapsE's where it names none.

    >>> model_settings({"name": "distmult", "dim": 8})
    DistMult(dim=8, reciprocal=False, self_loops=False, entity_dropout=0.0, relation_dropout=0.0, vector_start='xavier')
    """
    values = as_named_today({"name": "capse", **section})
    return fill(kind_of(str(values.pop("name"))).Settings, values, "model")


def build_model(
    settings: ModelSettings, entities: int, relations: int, seed: int = 0, *, table: Allocate = torch.empty
) -> TripleModel:
    """A fresh model on the CPU; the same seed gives the same weights on every machine.

    Its numbers are drawn in one go, so every process draws all of them, also where it keeps a share. ``table`` makes
    the entity table: in memory, on disk, or without any numbers where those of a file are to take its place.

    >>> from capse import TransE
    >>> model = build_model(TransE(dim=4), entities=10, relations=2)
    >>> model.score_tails(torch.tensor([0, 1]), torch.tensor([0, 1])).shape
    torch.Size([2, 10])
    """
    name = name_of(settings)
    if name in BASELINES:
        assert isinstance(settings, Rules)
        return BASELINES[name](settings, entities, relations)
    scorer = MODELS[name]
    numbers = _numbers_of(scorer, settings, entities, relations)
    if table is not torch.empty:
        numbers -= entities * entity_width(settings)
    check_memory(f"a model of {numbers:,} numbers", 4 * numbers, "lower model.dim, or what else makes it so large")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = TripleModel(
            scorer(settings),
            entities,
            relations,
            reciprocal=settings.reciprocal,
            self_loops=settings.self_loops,
            allocate=table,
        )
    model.settings = settings
    return model


def entity_width(settings: ModelSettings) -> int:
    """How many numbers an entity has in such a model."""
    try:
        with torch.device("meta"):
            return MODELS[name_of(settings)](settings).entity_width
    except RuntimeError:  # a scorer that reads its own numbers while it is made
        return settings.dim


def _numbers_of(scorer: type[Scorer], settings: ModelSettings, entities: int, relations: int) -> int:
    """How many numbers a model has, counted without any memory for them; its tables alone if that cannot be."""
    try:
        with torch.device("meta"):
            made = scorer(settings)
    except (
        RuntimeError
    ) as error:  # a scorer that reads its own numbers while it is made, or more than 64 bits can count
        if is_out_of_memory(error):
            check_memory("this model", sys.maxsize, "lower model.dim, or what else makes it so large")
        return 2 * settings.dim * (entities + relations)
    relations *= 2 if settings.reciprocal else 1
    tables: int = entities * made.entity_width + relations * made.relation_width
    weights: int = sum(part.numel() for part in made.state_dict().values())
    return tables + weights


__all__ = [
    "BASELINES",
    "MODELS",
    "Model",
    "ModelSettings",
    "PersonalModel",
    "Scorer",
    "TripleModel",
    "build_model",
    "entity_width",
    "kind_of",
    "model_settings",
    "name_of",
]
