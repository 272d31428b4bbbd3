"""A whole divided into a fixed number of blocks, whoever has them.

What is computed block by block and added up in the order of the blocks is the same for any number of processes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Blocks:
    """``size`` things in ``count`` blocks of nearly equal size.

    >>> [Blocks(10, 4).span(block) for block in range(4)]
    [range(0, 2), range(2, 5), range(5, 7), range(7, 10)]
    """

    size: int
    count: int

    def start(self, block: int) -> int:
        return self.size * block // self.count

    def span(self, block: int) -> range:
        return range(self.start(block), self.start(block + 1))

    def of(self, rank: int, processes: int) -> range:
        """The blocks of one of so many processes."""
        return range(self.count * rank // processes, self.count * (rank + 1) // processes)

    def rows(self, rank: int, processes: int) -> range:
        """The things in its blocks."""
        own = self.of(rank, processes)
        return range(self.start(own.start), self.start(own.stop))

    def bounds(self, processes: int) -> list[int]:
        """Where the things of each process begin, and the end."""
        return [self.rows(rank, processes).start for rank in range(processes)] + [self.size]
