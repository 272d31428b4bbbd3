"""Runs to and from PyKEEN: the same scores in both programs, for the models whose formula both have.

TransE, TransH, TransR, DistMult, ComplEx, ConvE and ConvKB. A PyKEEN model whose settings make its formula another is
refused: distances that are squared, projections whose length is cut (as its TransD always does, and its TransR unless
``max_projection_norm`` is out of reach), normal vectors of TransH that are not of length 1. Nothing is unpickled: both
functions take and give objects in memory.

With reciprocal relations PyKEEN keeps relation r and its inverse in rows 2r and 2r + 1; here they are r and R + r.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from capse.errors import MissingExtraError, SettingsError
from capse.graph.dataset import Graph
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.models import ModelSettings, TripleModel, build_model, name_of
from capse.models.complex import ComplEx
from capse.models.conve import ConvE
from capse.models.convkb import ConvKB
from capse.models.distmult import DistMult
from capse.models.transe import TransE
from capse.models.transh import TransH
from capse.models.transr import TransR

_FAR = 1e12  # a length that no projection has
_UNIT = 1e-5  # how far a normal vector's length may be from 1
_CONVE = {  # our modules and theirs
    "picture_norm": "hr2d.0",
    "convolution": "hr2d.2",
    "feature_norm": "hr2d.3",
    "hidden.0": "hr1d.0",
    "hidden.2": "hr1d.2",
}


def to_pykeen(run: LinkPredictor) -> Any:
    """A PyKEEN model, in evaluation mode, with this run's scores; its ids are those of the run."""
    models, factory_class = _pykeen()
    model, graph = run.model, run.graph
    settings = model.settings
    if settings is None or name_of(settings) not in _WRITERS:
        raise SettingsError(
            f"PyKEEN has no model with the formula of this one ({type(model.scorer).__name__})", _REMEDY
        )
    factory = factory_class(
        mapped_triples=torch.from_numpy(graph.train.astype(np.int64)),
        entity_to_id={label: i for i, label in enumerate(graph.entities.labels)},
        relation_to_id={label: i for i, label in enumerate(graph.relations.labels)},
        create_inverse_triples=model.reciprocal,
    )
    theirs = _WRITERS[name_of(settings)](models, factory, model)
    return theirs.eval()


def from_pykeen(model: Any, factory: Any, name: str = "pykeen") -> LinkPredictor:
    """A run with the scores of a trained PyKEEN model; ``factory`` has the triples that it was trained on.

    Save it with ``run.save(path)``.
    """
    kind = type(model.interaction).__name__.removesuffix("Interaction")
    if kind not in _READERS:
        raise SettingsError(f"there is no model here with the formula of PyKEEN's {kind}", _REMEDY)
    reciprocal = bool(model.use_inverse_triples)
    settings, tensors = _READERS[kind](model, reciprocal)
    entities, relations = (_in_order(labels) for labels in (factory.entity_to_id, factory.relation_to_id))
    graph = Graph.from_triples(
        np.asarray(factory.mapped_triples.cpu()), name=name, entities=entities, relations=relations
    )
    ours = build_model(settings, len(entities), len(relations))
    by_label = torch.tensor(np.argsort(np.argsort(entities)))  # where each of theirs stands among ours
    by_relation = torch.tensor(np.argsort(np.argsort(relations)))
    rows = torch.cat([by_relation, by_relation + len(relations)]) if reciprocal else by_relation
    table, others = tensors.pop("entities"), tensors.pop("relations")
    if reciprocal:
        others = torch.cat([others[0::2], others[1::2]])
    state = dict(ours.state_dict()) | {key: value.detach().clone() for key, value in tensors.items()}
    state["entities"], state["relations"] = torch.empty_like(table), torch.empty_like(others)
    state["entities"][by_label], state["relations"][rows] = table.detach(), others.detach()
    ours.load_state_dict(state)
    return LinkPredictor(ours, graph)


_REMEDY = "TransE, TransH, TransR, DistMult, ComplEx, ConvE and ConvKB can be exchanged"


def _in_order(ids: dict[str, int]) -> list[str]:
    return sorted(ids, key=lambda label: ids[label])


def _pykeen() -> tuple[Any, Any]:
    try:
        import pykeen.models
        from pykeen.triples import TriplesFactory
    except ImportError as error:
        raise MissingExtraError("PyKEEN", "pykeen") from error
    return pykeen.models, TriplesFactory


def _fill(representation: Any, values: Tensor) -> None:
    weight = representation._embeddings.weight
    with torch.no_grad():
        weight.copy_(values.reshape(weight.shape))


def _theirs(model: TripleModel) -> Tensor:
    """The relation table with relation r and its inverse beside each other."""
    table = model.relations.detach()
    return table.unflatten(0, (2, -1)).transpose(0, 1).flatten(0, 1) if model.reciprocal else table


def _settings(model: TripleModel) -> Any:
    return model.settings


# To PyKEEN


def _write_plain(name: str, **options: Any) -> Callable[[Any, Any, TripleModel], Any]:
    """A model with one table of entities and one of relations, as they are."""

    def write(models: Any, factory: Any, model: TripleModel) -> Any:
        settings = _settings(model)
        chosen = {key: getattr(settings, value) for key, value in options.items()}
        theirs = getattr(models, name)(triples_factory=factory, embedding_dim=settings.dim, **chosen)
        _fill(theirs.entity_representations[0], model.entities.detach())
        _fill(theirs.relation_representations[0], _theirs(model))
        return theirs

    return write


def _write_complex(models: Any, factory: Any, model: TripleModel) -> Any:
    theirs = models.ComplEx(triples_factory=factory, embedding_dim=_settings(model).dim)
    for representation, table in (
        (theirs.entity_representations[0], model.entities.detach()),
        (theirs.relation_representations[0], _theirs(model)),
    ):
        _fill(representation, torch.stack(table.chunk(2, dim=-1), dim=-1))  # real and imaginary part side by side
    return theirs


def _write_transh(models: Any, factory: Any, model: TripleModel) -> Any:
    settings = _settings(model)
    theirs = models.TransH(triples_factory=factory, embedding_dim=settings.dim, scoring_fct_norm=settings.norm)
    translation, normal = _theirs(model).split(settings.dim, dim=-1)
    _fill(theirs.entity_representations[0], model.entities.detach())
    # PyKEEN 1.11 projects by its first vectors, and translates by those that it calls normal.
    _fill(theirs.relation_representations[0], torch.nn.functional.normalize(normal, dim=-1))
    _fill(theirs.relation_representations[1], translation)
    return theirs


def _write_transr(models: Any, factory: Any, model: TripleModel) -> Any:
    settings = _settings(model)
    theirs = models.TransR(
        triples_factory=factory,
        embedding_dim=settings.dim,
        relation_dim=settings.dim,
        scoring_fct_norm=settings.norm,
        max_projection_norm=_FAR,
    )
    theirs.interaction.max_projection_norm = _FAR
    translation, matrix = _theirs(model).split([settings.dim, settings.dim**2], dim=-1)
    _fill(theirs.entity_representations[0], model.entities.detach())
    _fill(theirs.relation_representations[0], translation)
    _fill(theirs.relation_representations[1], matrix.unflatten(-1, (settings.dim, -1)).transpose(-1, -2))
    return theirs


def _write_conve(models: Any, factory: Any, model: TripleModel) -> Any:
    settings = _settings(model)
    theirs = models.ConvE(
        triples_factory=factory,
        embedding_dim=settings.dim,
        input_channels=1,
        embedding_height=settings.height,
        output_channels=settings.filters,
        kernel_height=settings.kernel,
        kernel_width=settings.kernel,
        input_dropout=settings.input_dropout,
        feature_map_dropout=settings.feature_dropout,
        output_dropout=settings.hidden_dropout,
    )
    _fill(theirs.entity_representations[0], model.entities.detach()[:, :-1])
    _fill(theirs.entity_representations[1], model.entities.detach()[:, -1])
    _fill(theirs.relation_representations[0], _theirs(model))
    scorer = model.scorer.state_dict()
    theirs.interaction.load_state_dict({_renamed(key, _CONVE): value for key, value in scorer.items()})
    return theirs


def _write_convkb(models: Any, factory: Any, model: TripleModel) -> Any:
    settings = _settings(model)
    theirs = models.ConvKB(
        triples_factory=factory,
        embedding_dim=settings.dim,
        num_filters=settings.filters,
        hidden_dropout_rate=settings.dropout,
    )
    _fill(theirs.entity_representations[0], model.entities.detach())
    _fill(theirs.relation_representations[0], _theirs(model))
    scorer = model.scorer.state_dict()
    with torch.no_grad():
        theirs.interaction.conv.weight.copy_(scorer["filters"].T[:, None, None, :])
        theirs.interaction.conv.bias.copy_(scorer["bias"])
        theirs.interaction.linear.weight.copy_(scorer["weights"].T.reshape(1, -1))  # filters, then dimensions
        theirs.interaction.linear.bias.zero_()
    return theirs


def _renamed(key: str, names: dict[str, str]) -> str:
    ours = max((name for name in names if key.startswith(f"{name}.")), key=len)
    return names[ours] + key.removeprefix(ours)


# From PyKEEN


Read = tuple[ModelSettings, dict[str, Tensor]]


def _values(representation: Any) -> Tensor:
    values: Tensor = representation(indices=None).detach().cpu()
    return values


def _norm(model: Any) -> Any:
    """p of the distance; refuses p-th powers of it."""
    interaction = model.interaction
    if interaction.p not in (1, 2) or (interaction.power_norm and interaction.p != 1):
        raise SettingsError(
            f"its distance has p = {interaction.p}" + (" and is squared" if interaction.power_norm else ""),
            "only plain distances with p = 1 or 2 can be taken over",
        )
    return int(interaction.p)


def _read_distmult(model: Any, reciprocal: bool) -> Read:
    entities, relations = _values(model.entity_representations[0]), _values(model.relation_representations[0])
    return DistMult(dim=entities.shape[1], reciprocal=reciprocal), {"entities": entities, "relations": relations}


def _read_complex(model: Any, reciprocal: bool) -> Read:
    entities, relations = (
        torch.cat([values.real, values.imag], dim=-1)
        for values in (_values(model.entity_representations[0]), _values(model.relation_representations[0]))
    )
    return ComplEx(dim=entities.shape[1] // 2, reciprocal=reciprocal), {"entities": entities, "relations": relations}


def _read_transe(model: Any, reciprocal: bool) -> Read:
    entities, relations = _values(model.entity_representations[0]), _values(model.relation_representations[0])
    settings = TransE(dim=entities.shape[1], reciprocal=reciprocal, norm=_norm(model), unit_ball=False)
    return settings, {"entities": entities, "relations": relations}


def _read_transh(model: Any, reciprocal: bool) -> Read:
    entities = _values(model.entity_representations[0])
    normal, translation = map(_values, model.relation_representations)  # see _write_transh
    if (torch.linalg.vector_norm(normal, dim=-1) - 1).abs().max() > _UNIT:
        raise SettingsError("the vectors that it projects by are not of length 1", "PyKEEN 1.11 does not keep them so")
    settings = TransH(dim=entities.shape[1], reciprocal=reciprocal, norm=_norm(model), unit_ball=False)
    return settings, {"entities": entities, "relations": torch.cat([translation, normal], dim=-1)}


def _read_transr(model: Any, reciprocal: bool) -> Read:
    entities = _values(model.entity_representations[0])
    translation, matrix = map(_values, model.relation_representations)
    if translation.shape[1] != entities.shape[1]:
        raise SettingsError(
            "its entities and relations are not of one size", "train it with relation_dim=embedding_dim"
        )
    longest = torch.linalg.matrix_norm(matrix, ord=2).max() * torch.linalg.vector_norm(entities, dim=-1).max()
    if model.interaction.max_projection_norm < longest * math.sqrt(entities.shape[1]):
        raise SettingsError(
            "it cuts the length of projections, which TransR here does not", "raise max_projection_norm"
        )
    settings = TransR(dim=entities.shape[1], reciprocal=reciprocal, norm=_norm(model), unit_ball=False)
    relations = torch.cat([translation, matrix.transpose(-1, -2).flatten(1)], dim=-1)
    return settings, {"entities": entities, "relations": relations}


def _read_conve(model: Any, reciprocal: bool) -> Read:
    vectors, bias = map(_values, model.entity_representations)
    shape, modules = model.interaction.shape_info, dict(model.interaction.named_modules())
    state = model.interaction.state_dict()
    if shape.input_channels != 1 or shape.kernel_height != shape.kernel_width or "hr1d.2.running_mean" not in state:
        raise SettingsError("its pictures, filters or normalisation are of another kind", "see capse.ConvE")
    settings = ConvE(
        dim=vectors.shape[1],
        reciprocal=reciprocal,
        height=shape.image_height,
        filters=shape.output_channels,
        kernel=shape.kernel_height,
        input_dropout=modules["hr2d.1"].p,
        feature_dropout=modules["hr2d.5"].p,
        hidden_dropout=modules["hr1d.1"].p,
    )
    backwards = {theirs: f"scorer.{ours}" for ours, theirs in _CONVE.items()}
    tensors = {_renamed(key, backwards): value.cpu() for key, value in state.items()}
    entities = torch.cat([vectors, bias.reshape(-1, 1)], dim=-1)
    return settings, tensors | {"entities": entities, "relations": _values(model.relation_representations[0])}


def _read_convkb(model: Any, reciprocal: bool) -> Read:
    entities, relations = _values(model.entity_representations[0]), _values(model.relation_representations[0])
    conv, linear = model.interaction.conv, model.interaction.linear
    filters, bias = conv.weight.detach().cpu()[:, 0, 0, :].T, conv.bias.detach().cpu()
    dim = entities.shape[1]
    weights = linear.weight.detach().cpu().reshape(-1, dim).T
    constant = float(linear.bias.detach())
    if constant:  # a filter more, which is 1 whatever it sees, and counts for the first dimension alone
        filters, bias = torch.cat([filters, torch.zeros(3, 1)], dim=1), torch.cat([bias, torch.ones(1)])
        first = torch.zeros(dim, 1)
        first[0] = constant
        weights = torch.cat([weights, first], dim=1)
    settings = ConvKB(dim=dim, reciprocal=reciprocal, filters=len(bias), dropout=model.interaction.hidden_dropout.p)
    scorer = {"scorer.filters": filters, "scorer.bias": bias, "scorer.weights": weights}
    return settings, scorer | {"entities": entities, "relations": relations}


_WRITERS: dict[str, Callable[[Any, Any, TripleModel], Any]] = {
    "transe": _write_plain("TransE", scoring_fct_norm="norm"),
    "distmult": _write_plain("DistMult"),
    "complex": _write_complex,
    "transh": _write_transh,
    "transr": _write_transr,
    "conve": _write_conve,
    "convkb": _write_convkb,
}
_READERS: dict[str, Callable[[Any, bool], Read]] = {
    "TransE": _read_transe,
    "DistMult": _read_distmult,
    "ComplEx": _read_complex,
    "TransH": _read_transh,
    "TransR": _read_transr,
    "ConvE": _read_conve,
    "ConvKB": _read_convkb,
}
