"""The gradients of a batch of sampled negatives, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor

from capse.processes.blocks import Blocks
from capse.processes.group import Group
from capse.processes.sums import Node, Rows, add_rows, add_up, nodes_of
from capse.training.batches import Epoch
from capse.training.by_rows.entity_table import EntityTable
from capse.training.objectives import Drawn, SampledObjective, TripleObjective

RowSums = Mapping[Node, Rows | None]
DenseSums = Mapping[Node, list[Tensor] | None]


class Gradients(Protocol):
    """What a step's batch says about rows of the entity table and about everything else, by nodes of the sum."""

    @property
    def shapes(self) -> list[torch.Size]:
        """Of the dense ones: the loss, gradients of relations and of the scorer's weights, the scorer's buffers."""

    def of(self, epoch: Epoch, step: int, *, bf16: bool) -> tuple[RowSums, DenseSums]:
        """Those of this process's parts."""

    def keep(self, buffers: list[Tensor]) -> None:
        """Take over buffers that were added up over all parts."""


class Differentiator:
    """What each part needs: a model over the rows that it names, and the gradients of its loss."""

    def __init__(self, objective: TripleObjective, table: EntityTable, parts: int, group: Group) -> None:
        self.model, self.table, self.parts, self.group = objective.model, table, parts, group
        self.weights = [self.model.relations, *self.model.scorer.parameters()]
        # One part changes them as a batch always does; many begin alike and are averaged.
        self.buffers = list(self.model.scorer.buffers()) if parts > 1 else []
        self.counted = 0  # parts of the step that had something

    @property
    def shapes(self) -> list[torch.Size]:
        return [torch.Size([]), *(x.shape for x in self.weights), *(x.shape for x in self.buffers)]

    @property
    def own(self) -> range:
        return Blocks(0, self.parts).of(self.group.rank, self.group.size)

    def generator(self, epoch: Epoch, step: int, part: int) -> torch.Generator:
        return epoch.generator(step, part + 1) if self.parts > 1 else epoch.generator(step)

    def gradients(self, loss: Tensor, rows: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Of a loss, by the rows (m, k) and by everything else, the loss itself being the first of these."""
        of_rows, *dense = torch.autograd.grad(loss, [rows, *self.weights], materialize_grads=True)
        return of_rows, [loss.detach(), *dense]

    @contextmanager
    def alike(self) -> Iterator[Callable[[], list[Tensor]]]:
        """Within it the scorer's buffers begin as the step found them; gives what reads them at its end."""
        before = [buffer.clone() for buffer in self.buffers]
        dtype = self.model.relations.dtype
        yield lambda: [buffer.to(dtype, copy=True) for buffer in self.buffers]
        for buffer, old in zip(self.buffers, before, strict=True):
            buffer.copy_(old)

    def keep(self, buffers: list[Tensor]) -> None:
        for buffer, total in zip(self.buffers, buffers, strict=True):
            buffer.copy_(total / self.counted)

    def added_up(self, rows: Mapping[int, Rows], dense: Mapping[int, list[Tensor]]) -> tuple[RowSums, DenseSums]:
        """The sums of this process's nodes, of what each of its parts gives."""
        of_rows: dict[Node, Rows | None] = {(part, 1): rows.get(part) for part in self.own}
        of_dense: dict[Node, list[Tensor] | None] = {(part, 1): dense.get(part) for part in self.own}
        nodes = nodes_of(self.own)
        return (
            {node: add_up(of_rows, node, add_rows) for node in nodes},
            {node: add_up(of_dense, node, add_all) for node in nodes},
        )


def add_all(one: list[Tensor], other: list[Tensor]) -> list[Tensor]:
    return [a + b for a, b in zip(one, other, strict=True)]


class PartsOfBatch(Differentiator):
    """Of sampled negatives: each part of the batch has a small table of the rows that it names."""

    def __init__(self, objective: SampledObjective, table: EntityTable, parts: int, group: Group) -> None:
        super().__init__(objective, table, parts, group)
        self.objective = objective

    def of(self, epoch: Epoch, step: int, *, bf16: bool) -> tuple[RowSums, DenseSums]:
        batch = epoch.batch(step)
        blocks = Blocks(len(batch), self.parts)
        self.counted = sum(bool(blocks.span(part)) for part in range(self.parts))
        drawn = {part: self._draw(batch, epoch, step, part) for part in self.own if blocks.span(part)}
        named = {part: found.ids() for part, found in drawn.items()}
        ids = torch.cat([batch[:0, 0], *named.values()]).unique() if len(named) != 1 else next(iter(named.values()))
        vectors = self.table.rows(ids)
        rows, dense = {}, {}
        for part, found in drawn.items():
            self.generator(epoch, step, part)  # dropout draws from torch's own, which this seeds
            own = vectors if len(named) == 1 else vectors[torch.searchsorted(ids, named[part])]
            own.requires_grad_()
            model = self.model.over(own, self.model.relations)
            share = len(found.triples) / len(batch)
            with self.alike() as buffers:
                with torch.autocast(own.device.type, torch.bfloat16, enabled=bf16):
                    loss = self.objective.loss_of_drawn(found.within(named[part]), model, share)
                of_rows, of_weights = self.gradients(loss, own)
                dense[part] = of_weights + buffers()
            rows[part] = Rows(named[part], of_rows)
        return self.added_up(rows, dense)

    def _draw(self, batch: Tensor, epoch: Epoch, step: int, part: int) -> Drawn:
        span = Blocks(len(batch), self.parts).span(part)
        generator = self.generator(epoch, step, part)
        common = epoch.generator(step) if self.parts > 1 else generator
        return self.objective.draw(batch[span.start : span.stop], generator, common)
