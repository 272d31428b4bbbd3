"""Training on lists: what was clicked against what was shown beside it and not clicked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from capse.errors import SettingsError
from capse.models import PersonalModel
from capse.runs.settings import Section
from capse.training.losses import Loss, SampledLoss, build_loss, names_of
from capse.training.objectives import Objective


@dataclass(frozen=True)
class Shown(Section):
    """The documents of a list that a clicked one competes with."""

    count: int = 50  # at most so many results of a list, drawn anew at each step where it has more

    def __post_init__(self) -> None:
        if self.count < 2:
            raise SettingsError(f"shown.count is {self.count}", "choose 2 results or more")


@dataclass(frozen=True)
class Lists:
    """L lists of up to M documents; −1 fills a short one up."""

    queries: Tensor  # (L, k) fixed
    profiles: Tensor  # (L, k) what was known of the user at that moment, fixed
    users: Tensor  # (L,) rows of the model's offsets, −1 for none
    documents: Tensor  # (L, M) rows of the document vectors
    relevant: Tensor  # (L, M) bool
    vectors: Tensor  # (D, k) fixed
    weights: Tensor | None = None  # (L, M) what a click on each document counts for; None: every click for one


class ListObjective(Objective):
    """Each clicked document against the list's others; a list with several clicks counts once for each.

    An example is a list. The paper's data has an impression with several clicks as several lists, which comes to the
    same: the documents beside a click count as irrelevant once per click.
    """

    def __init__(self, model: PersonalModel, lists: Lists, loss: Loss, shown: Shown) -> None:
        super().__init__()
        self.model: PersonalModel = model
        self.examples: Tensor = torch.arange(len(lists.users), device=model.device)
        self.lists, self.shown, self.loss = lists, shown, loss
        if loss.relation_weight:
            raise SettingsError(f"loss.relation_weight is {loss.relation_weight}", "lists have no relations: choose 0")
        self.function: Any = build_loss(loss)
        if not isinstance(self.function, SampledLoss):
            raise SettingsError(f"loss.name is {loss.name!r}", f"lists take one of {names_of(SampledLoss)}")
        if lists.weights is not None and len(self.function.of_sampled(torch.zeros(2), torch.zeros(2, 3))) != 2:
            remedy = "choose softmax or margin, which have a term for each click"
            raise SettingsError(f"loss.name is {loss.name!r}, and clicks have weights", remedy)

    def forward(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        lists = self.lists
        chosen = self._drawn(lists.documents[batch], lists.relevant[batch], generator)
        documents, relevant = (column.gather(1, chosen) for column in (lists.documents[batch], lists.relevant[batch]))
        absent = documents < 0
        vectors = lists.vectors[documents.clamp(min=0)]
        scores = self.model.score_lists(lists.queries[batch], lists.profiles[batch], lists.users[batch], vectors)
        beside = scores.masked_fill(relevant | absent, -torch.inf)
        place, column = relevant.nonzero(as_tuple=True)
        terms = self.function.of_sampled(scores[place, column], beside[place])
        if lists.weights is not None:
            weights = lists.weights[batch].gather(1, chosen)[place, column]
            terms = terms * weights.view(-1, *[1] * (terms.dim() - 1))
        loss: Tensor = self.function.reduce(terms)
        return loss

    def _drawn(self, documents: Tensor, relevant: Tensor, generator: torch.Generator) -> Tensor:
        """At most ``count`` columns of each list: what was clicked, then others by lot."""
        if documents.shape[1] <= self.shown.count:
            return torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
        keys = torch.rand(documents.shape, device=documents.device, generator=generator) - (documents < 0).float()
        return (keys + relevant.float()).topk(self.shown.count, dim=1).indices
