"""A learner whose step touches the rows that its batch names, alone or with other processes.

A batch is divided into a fixed number of *parts*. Each draws random numbers of its own, keyed by seed, epoch, step and
part, and is differentiated alone; gradients are added up over the tree of parts (`processes.sums`). A process does the
parts that are its own, so that their sum, to the last bit, does not depend on how many processes there are. With one
part a step draws what an undivided one does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from capse.errors import SettingsError
from capse.models import TripleModel
from capse.processes.blocks import Blocks
from capse.processes.group import Group
from capse.processes.shards import Shards
from capse.processes.sums import Node, add_up, nodes_of
from capse.training.batches import Epoch
from capse.training.by_rows.all_entities import AgainstAll
from capse.training.by_rows.entity_table import EntityTable
from capse.training.by_rows.parts import Gradients, PartsOfBatch, add_all
from capse.training.by_rows.row_optimizers import build_row_optimizer
from capse.training.checkpoints import pack, unpack
from capse.training.learner import ObjectiveLearner
from capse.training.losses import Softmax
from capse.training.objectives import AllEntitiesObjective, Objective, SampledObjective
from capse.training.optimizers import Optimizer, build_optimizer
from capse.training.settings import Training
from capse.training.steps import matmul_precision

_NEEDS = (
    "use a loss of sampled negatives (negatives.sampler=bernoulli, uniform or shared), or softmax with "
    "negatives.sampler=all"
)


@dataclass(frozen=True)
class Division:
    """Into how many parts a batch is divided, among whom, and whether the entity table is divided too: into as many
    blocks."""

    parts: int = 1
    group: Group = field(default_factory=Group)
    sharded: bool = False

    def shards(self, entities: int) -> Shards | None:
        """Who has which of so many rows of the entity table; None where everybody has all."""
        return Shards(Blocks(entities, self.parts), self.group) if self.sharded else None


class RowLearner(ObjectiveLearner):
    """Lowers an objective's loss; the entity table by rows, all else by torch's optimisers."""

    model: TripleModel

    def __init__(
        self,
        objective: Objective,
        training: Training,
        optimizer: Optimizer,
        division: Division | None = None,
    ) -> None:
        """Where the table is divided too, the model has its share of it already: see `TripleModel.keep_rows`."""
        model = objective.model
        assert isinstance(model, TripleModel)
        super().__init__(objective, training)
        self.division = division or Division()
        model.constrain()  # a row that is never touched is never pulled back either
        blocks, group = Blocks(model.entity_count, self.division.parts), self.division.group
        kept = build_row_optimizer(optimizer, model.entities.detach())
        self.table = EntityTable(model.entities.detach(), kept, blocks, group, sharded=self.division.sharded)
        self.optimizer = build_optimizer(optimizer, model, training.learning_rate, [model.relations])
        self.gradients = self._gradients(objective)
        self.steps = 0  # taken so far

    def _gradients(self, objective: Objective) -> Gradients:
        parts, group = self.division.parts, self.division.group
        if isinstance(objective, SampledObjective):
            return PartsOfBatch(objective, self.table, parts, group)
        if isinstance(objective, AllEntitiesObjective) and type(objective.function) is Softmax:
            return AgainstAll(objective, self.table, parts, group)
        raise SettingsError(
            f"loss.name={objective.loss.name} with these negatives cannot be trained by rows or divided", _NEEDS
        )

    def step(self, epoch: Epoch, step: int, learning_rate: float) -> Tensor:
        self.steps += 1
        with matmul_precision("high" if self.precision == "tf32" else None):
            rows, dense = self.gradients.of(epoch, step, bf16=self.precision == "bf16")
        loss, *gradients = self._added_up(dense)
        self._descend(gradients, learning_rate)
        places, values = self.table.descend(rows, learning_rate, self.steps)
        with torch.no_grad():
            self.model.scorer.constrain(values, self.model.relations.detach())
            self.table.put(places, values)
        return self.summed(loss, epoch, step)

    def _added_up(self, dense: Mapping[Node, list[Tensor] | None]) -> list[Tensor]:
        """The loss, the gradients of relations and weights, and the buffers: of all parts."""
        shapes = self.gradients.shapes
        group, parts = self.division.group, self.division.parts
        if group.size > 1:
            like, width = self.model.relations.detach(), 1 + sum(shape.numel() for shape in shapes)
            lines = like.new_zeros(len(dense), width)  # what has nothing begins with 0
            for line, found in zip(lines, dense.values(), strict=True):
                if found is not None:
                    line.copy_(torch.cat([like.new_ones(1), *(x.reshape(-1) for x in found)]))
            dense = {}
            for rank, sent in enumerate(group.gather(lines)):
                for node, line in zip(nodes_of(Blocks(0, parts).of(rank, group.size)), sent, strict=True):
                    dense[node] = _cut(line[1:], shapes) if line[0] else None
        total = add_up(dense, (0, parts), add_all)
        assert total is not None, "no batch is empty"
        return total

    def _descend(self, gradients: list[Tensor], learning_rate: float) -> None:
        weights = [self.model.relations, *self.model.scorer.parameters()]
        for weight, gradient in zip(weights, gradients, strict=False):
            weight.grad = gradient
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.gradients.keep(gradients[len(weights) :])

    @property
    def row_names(self) -> frozenset[str]:
        """Of what `state_dict` and the model's have, the tensors with a row for each entity."""
        return frozenset(["entities", "model.entities", *(f"rows.{name}" for name in self.table.optimizer.kept)])

    def state_dict(self) -> dict[str, Tensor]:
        kept = {f"rows.{name}": tensor for name, tensor in self.table.optimizer.kept.items()}
        return {**pack(self._parts()), **kept, "steps": torch.tensor(self.steps)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        unpack(self._parts(), state)
        for name, tensor in self.table.optimizer.kept.items():
            tensor.copy_(state[f"rows.{name}"])
        self.steps = int(state["steps"])

    def _parts(self) -> dict[str, nn.Module | torch.optim.Optimizer]:
        return {"model": self.model, "optimizer": self.optimizer}


def _cut(line: Tensor, shapes: list[torch.Size]) -> list[Tensor]:
    pieces = line.split([shape.numel() for shape in shapes])
    return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]
