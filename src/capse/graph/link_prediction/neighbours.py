"""Which entities have vectors like another's: cosine similarity over the whole table, without an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from capse.arrays import Float32s, Float64s, Int64s
from capse.errors import SettingsError
from capse.models.candidates import ROWS_OF_BLOCK

if TYPE_CHECKING:
    from capse.graph.link_prediction.predictor import LinkPredictor


@dataclass(frozen=True)
class Neighbour:
    """An entity whose vector is near another's."""

    entity: str  # its label
    name: str
    similarity: float  # the cosine of the two vectors: 1 is the same direction


def similar(predictor: LinkPredictor, entity: str, top: int = 10) -> list[Neighbour]:
    """The ``top`` entities nearest to one, given by label or name, without itself; equals in the order of labels.

    >>> from capse import DistMult
    >>> from capse.graph.dataset import Graph
    >>> from capse.graph.link_prediction.predictor import LinkPredictor
    >>> from capse.models import build_model
    >>> graph = Graph.from_triples([("a", "r", "b"), ("c", "r", "d")])
    >>> model = build_model(DistMult(dim=2), entities=4, relations=1)
    >>> _ = model.entities.data.copy_(torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [2.0, 0.0]]))
    >>> [(near.entity, round(near.similarity, 3)) for near in similar(LinkPredictor(model, graph), "a", top=2)]
    [('d', 1.0), ('b', 0.707)]
    """
    place = predictor.graph.entities.id(entity)
    table = _table(predictor)
    vector = _units(table[place : place + 1])[0]
    similarities = np.concatenate([_units(part) @ vector for part in table.split(ROWS_OF_BLOCK)]).astype(np.float64)
    return named(predictor, *nearest(similarities, place, top))


def unit_vectors(predictor: LinkPredictor) -> Float32s:
    """The entities' vectors at length 1, (E, width); one of zeros stays so."""
    return _units(_table(predictor))


def _table(predictor: LinkPredictor) -> torch.Tensor:
    table = predictor.model.entities.detach()
    if not table.shape[1]:
        raise SettingsError("this model has no vectors", "choose one that embeds entities")
    return table


def _units(vectors: torch.Tensor) -> Float32s:
    return np.asarray(torch.nn.functional.normalize(vectors.float(), dim=1).cpu().numpy())


def nearest(similarities: Float64s, without: int, top: int) -> tuple[Int64s, Float64s]:
    """The places of the highest, but for one, and their values."""
    if top < 1:
        raise SettingsError(f"the {top} nearest are asked for", "ask for 1 or more")
    order = np.argsort(-similarities, kind="stable")
    chosen = order[order != without][:top]
    return chosen, similarities[chosen]


def named(predictor: LinkPredictor, ids: Int64s, similarities: Float64s) -> list[Neighbour]:
    entities = predictor.graph.entities
    pairs = zip(ids.tolist(), similarities.tolist(), strict=True)
    return [Neighbour(entities.labels[i], entities.name(i), value) for i, value in pairs]
