"""Scores of all rows of a table, block by block: whoever has a block gets the same bits from it.

A matrix product may compute its last rows by another route than the rest, with the additions in another order. So a
table falls into blocks that do not depend on who scores them, and vectors that several rows have are scored apart, in
one product of them alone: such rows tie exactly, wherever they stand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

ROWS_OF_BLOCK = 2**16
_NUMBERS = 2**22  # that are hashed at a time


class Repeated(NamedTuple):
    """The rows of a table whose vectors others have too."""

    rows: Tensor  # (m,) ascending
    vectors: Tensor  # (d, k) the distinct ones
    places: Tensor  # (m,) of each row's vector among them


def score_rows(score: Callable[[Tensor], Tensor], table: Tensor, own: range, repeated: Repeated | None) -> Tensor:
    """Scores (B, E) of a table (E, k), by what scores some of its rows; −∞ but for the ``own`` ones, whole blocks."""
    if len(own) == len(table) <= ROWS_OF_BLOCK:
        scores = score(table)
    else:
        like = score(table[:1])
        scores = like.new_full((len(like), len(table)), -torch.inf)
        for start in range(own.start, own.stop, ROWS_OF_BLOCK):
            stop = min(start + ROWS_OF_BLOCK, own.stop)
            scores[:, start:stop] = score(table[start:stop])
    if repeated is not None:
        here = (repeated.rows >= own.start) & (repeated.rows < own.stop)
        scores[:, repeated.rows[here]] = score(repeated.vectors)[:, repeated.places[here]]
    return scores


def rows_of_shard(rows: int, number: int, shards: int) -> range:
    """The rows of one of so many shards, from 0: whole blocks, as nearly as many to each as there can be.

    >>> [rows_of_shard(150_000, number, 2) for number in range(2)]
    [range(0, 65536), range(65536, 150000)]
    """
    blocks = -(-rows // ROWS_OF_BLOCK)
    first, last = (blocks * part // shards for part in (number, number + 1))
    return range(min(rows, first * ROWS_OF_BLOCK), min(rows, last * ROWS_OF_BLOCK))


def repeated_rows(table: Tensor) -> Repeated | None:
    """Those of a table (E, k); None where all rows are distinct. Of the table no copy is made."""
    ordered, rows = row_keys(table).sort()
    same = torch.nn.functional.pad(ordered[1:] == ordered[:-1], (1, 1))
    rows = rows[same[1:] | same[:-1]].sort().values
    return Repeated(rows, *distinct_rows(table[rows])) if len(rows) else None


def row_keys(table: Tensor) -> Tensor:
    """A hash (E,) of the bits of each row of a table (E, k)."""
    generator = torch.Generator().manual_seed(0)
    factors = torch.randint(-(2**62), 2**62, (table.shape[1],), generator=generator).to(table.device)
    whole = {4: torch.int32, 8: torch.int64}[table.element_size()]

    def hashed(rows: Tensor) -> Tensor:
        return ((rows + 0.0).view(whole).long() * factors).sum(1)  # −0.0 and 0.0 are one number

    return torch.cat([hashed(part) for part in table.split(max(1, _NUMBERS // max(1, table.shape[1])))])


def distinct_rows(table: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows of a table (n, k), in order of first appearance, and the place (n,) of each row among them."""
    rows = np.ascontiguousarray(table.cpu().numpy() + 0.0)  # −0.0 and 0.0 are one number
    whole = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, inverse = np.unique(whole, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    keep = torch.from_numpy(first[order]).to(table.device)
    return table[keep], torch.from_numpy(place[inverse]).to(table.device)
