"""ConvE: a two-dimensional convolution over head and relation, matched with the tail."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from capse.errors import SettingsError
from capse.models.base import ModelSettings, Scorer, check_dropout, check_filters

ALIGNED = 8  # a product with a multiple of this many candidates takes a GPU a third of the time


@dataclass(frozen=True)
class ConvE(ModelSettings):
    """Settings of ConvE; it is meant to be used with reciprocal relations, else every head costs a convolution."""

    dim: int = 200
    reciprocal: bool = True
    height: int = 10  # rows of the picture that one embedding becomes; the picture has 2·height rows
    filters: int = 32  # of the convolution
    kernel: int = 3  # rows and columns that a filter sees
    input_dropout: float = 0.2  # drops entries of the picture
    feature_dropout: float = 0.2  # drops whole feature maps
    hidden_dropout: float = 0.3  # drops entries of the hidden layer

    def __post_init__(self) -> None:
        super().__post_init__()
        check_filters(self.filters)
        for key in ("input_dropout", "feature_dropout", "hidden_dropout"):
            check_dropout(key, getattr(self, key))
        if self.kernel < 1:
            raise SettingsError(f"model.kernel is {self.kernel}", "choose 1 or more")
        is_picture = self.height > 0 and self.dim % self.height == 0
        if not is_picture or min(2 * self.height, self.dim // self.height) < self.kernel:
            raise SettingsError(
                f"model.height is {self.height}, which does not make a picture of model.dim = {self.dim} numbers",
                f"choose a height that divides dim and leaves room for filters of {self.kernel} by {self.kernel}",
            )


class ConvEScorer(Scorer):
    """f(h, r, t) = relu(vec(relu([h̄; r̄] ∗ ω)) W)·t + b_t, with h̄, r̄ the vectors reshaped to pictures.

    An entity is [vector, bias], k + 1 numbers. Batch normalisation and dropout stand where its authors put them.
    """

    Settings = ConvE
    citation = "Dettmers et al., Convolutional 2D Knowledge Graph Embeddings, AAAI 2018"
    quick_relations = False

    def __init__(self, settings: ConvE) -> None:
        super().__init__()
        self.height = settings.height
        self.width = settings.dim // settings.height
        self.entity_width = settings.dim + 1
        self.relation_width = settings.dim
        rows, columns = 2 * self.height - settings.kernel + 1, self.width - settings.kernel + 1
        features = settings.filters * rows * columns
        self.floats_per_triple = 2 * features
        self.picture_norm = nn.BatchNorm2d(1)
        self.input_dropout = nn.Dropout(settings.input_dropout)
        self.convolution = nn.Conv2d(1, settings.filters, settings.kernel)
        self.feature_norm = nn.BatchNorm2d(settings.filters)
        self.feature_dropout = nn.Dropout2d(settings.feature_dropout)
        self.hidden = nn.Sequential(
            nn.Linear(features, settings.dim),
            nn.Dropout(settings.hidden_dropout),
            nn.BatchNorm1d(settings.dim),
            nn.ReLU(),
        )

    def score_triples(self, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
        return (self._query(h, r) * t[..., :-1]).sum(-1) + t[..., -1]

    def score_tails(self, h: Tensor, r: Tensor, candidates: Tensor) -> Tensor:
        vectors = candidates[:, :-1]
        if vectors.is_cuda:
            vectors = F.pad(vectors, (0, 0, 0, -len(candidates) % ALIGNED))
        return (self._query(h, r) @ vectors.T)[:, : len(candidates)] + candidates[:, -1]

    def _query(self, h: Tensor, r: Tensor) -> Tensor:
        """What the convolution makes of head and relation: (..., k)."""
        h, r = torch.broadcast_tensors(h[..., :-1], r)
        pictures = torch.cat([x.unflatten(-1, (self.height, self.width)) for x in (h, r)], dim=-2)
        pictures = pictures.reshape(-1, 1, 2 * self.height, self.width)
        count = len(pictures)
        if self.training and count == 1:  # batch normalisation needs two: one alone is normalised with itself
            pictures = pictures.repeat(2, 1, 1, 1)
        maps = self.convolution(self.input_dropout(self.picture_norm(pictures)))
        maps = self.feature_dropout(self.feature_norm(maps).relu_())
        query: Tensor = self.hidden(maps.flatten(1))[:count].reshape(h.shape)
        return query

    def initialise(self, entities: Tensor, relations: Tensor) -> None:
        nn.init.xavier_normal_(entities)
        nn.init.xavier_normal_(relations)
        entities[:, -1] = 0
