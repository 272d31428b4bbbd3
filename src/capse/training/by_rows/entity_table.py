"""The entity table and its optimiser's state, where a step's rows come from and its gradients go.

*sharded*: a process has the rows of its blocks; a step's rows come from their owners and their gradients go back there.
*replicated*: every process has all rows and takes the same step. In a group of one the two are the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from capse.processes.blocks import Blocks
from capse.processes.group import Group
from capse.processes.shards import Shards
from capse.processes.sums import Node, Rows, add_rows, add_up, nodes_of
from capse.training.by_rows.row_optimizers import RowOptimizer


class EntityTable:
    """Rows of a table of ``blocks.size`` rows: those of this process's blocks, or all of them."""

    def __init__(self, values: Tensor, optimizer: RowOptimizer, blocks: Blocks, group: Group, *, sharded: bool) -> None:
        self.values, self.optimizer, self.blocks, self.group = values, optimizer, blocks, group
        self.shards = Shards(blocks, group)
        self.sharded = sharded and group.size > 1
        self.own = self.shards.own if self.sharded else range(blocks.size)

    def rows(self, ids: Tensor) -> Tensor:
        """The vectors (m, k) of entities (m,), ascending."""
        return self.shards.rows(self.values, ids) if self.sharded else self.values[ids]

    def block(self, number: int) -> Tensor:
        """The vectors of a block of this process."""
        span = self.blocks.span(number)
        return self.values[span.start - self.own.start : span.stop - self.own.start]

    def descend(self, found: Mapping[Node, Rows | None], rate: float, step: int) -> tuple[Tensor, Tensor]:
        """The places and the new values of the rows that gradients, given by nodes of the sum of parts, are of."""
        total = add_up(self._shared(found), (0, self.blocks.count), add_rows)
        if total is None:
            total = Rows(self._no_ids(), self.values[:0])
        places = total.ids - self.own.start
        return places, self.optimizer.descend(self.values, places, total.values, rate, step)

    def put(self, places: Tensor, values: Tensor) -> None:
        self.values.index_copy_(0, places, values)

    def _shared(self, found: Mapping[Node, Rows | None]) -> Mapping[Node, Rows | None]:
        """Everybody's gradients: of own rows, or of all."""
        if self.group.size == 1:
            return found
        # One message: which node, which row, and the gradient beside it.
        parts = [(first, count, rows) for (first, count), rows in found.items() if rows is not None]
        keys = [torch.stack([rows.ids, rows.ids * 0 + first, rows.ids * 0 + count], 1) for first, count, rows in parts]
        empty = self._no_ids().view(0, 3)
        key, values = torch.cat([empty, *keys]), torch.cat([self.values[:0], *(rows.values for *_, rows in parts)])
        if self.sharded:
            order = key[:, 0].argsort(stable=True)
            key, values = key[order], values[order]
            keys_of, values_of = (
                self.group.exchange(self.shards.by_owner(key[:, 0].contiguous(), x)) for x in (key, values)
            )
        else:
            keys_of, values_of = self.group.gather(key), self.group.gather(values)
        return self._by_node(keys_of, values_of)

    def _by_node(self, keys: list[Tensor], values: list[Tensor]) -> dict[Node, Rows | None]:
        """What each process sent, node by node; a node of which nothing came has no row here."""
        nodes: dict[Node, Rows | None] = {}
        for rank, (key, value) in enumerate(zip(keys, values, strict=True)):
            for node in nodes_of(self.blocks.of(rank, self.group.size)):
                chosen = (key[:, 1] == node[0]) & (key[:, 2] == node[1])
                nodes[node] = Rows(key[chosen, 0], value[chosen]) if chosen.any() else None
        return nodes

    def _no_ids(self) -> Tensor:
        return torch.empty(0, dtype=torch.long, device=self.values.device)
