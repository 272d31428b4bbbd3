"""A table whose rows several processes share: who has which, and how a process gets those of others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from capse.processes.blocks import Blocks
from capse.processes.group import Group


class Shards:
    """The rows of a table of ``blocks.size`` rows: each process of a group has those of its blocks."""

    def __init__(self, blocks: Blocks, group: Group) -> None:
        self.blocks, self.group = blocks, group
        self.own = blocks.rows(group.rank, group.size)
        self._bounds = torch.tensor(blocks.bounds(group.size))

    @property
    def own_blocks(self) -> range:
        return self.blocks.of(self.group.rank, self.group.size)

    def rows(self, values: Tensor, ids: Tensor) -> Tensor:
        """The rows (m, k) with these ids (m,), ascending, of a table of which this process has ``values``."""
        asked = self.group.exchange(self.by_owner(ids, ids))
        return torch.cat(self.group.exchange([values[part - self.own.start] for part in asked]))

    def block(self, values: Tensor, number: int) -> Tensor:
        """A block of this process."""
        span = self.blocks.span(number)
        return values[span.start - self.own.start : span.stop - self.own.start]

    def by_owner(self, ids: Tensor, x: Tensor) -> Sequence[Tensor]:
        """``x`` (m, ...) by the owners of the ids (m,), ascending."""
        places = torch.searchsorted(ids, self._bounds.to(ids.device)).tolist()
        return [x[first:last] for first, last in pairwise(places)]
