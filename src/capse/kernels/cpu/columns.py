"""Candidates' vectors as sorted columns, in tiles: prepared once, used by every query."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from capse.kernels.cpu.loops import cached
from capse.kernels.cpu.sorting import argsort
from capse.kernels.frozen import is_frozen
from capse.kernels.threads import in_threads

ENTRIES = (0,) * 64  # the lanes of a block of entries that are compared with a key at once
BLOCK = len(ENTRIES)


class Columns(NamedTuple):
    """The i-th entries of each tile's candidates, ascending, and whose they are: candidate ``tile·size + place``'s.

    Entries are padded with +∞ to whole blocks.
    """

    entries: npt.NDArray[np.floating[Any]]  # (tiles, k, padded size)
    places: npt.NDArray[np.uint16]  # (tiles, k, size)
    ranges: npt.NDArray[np.floating[Any]]  # the least and the greatest of all i-th entries, (k, 2)


def sort_columns(candidates: npt.NDArray[np.floating[Any]], tile: int, threads: int) -> Columns:
    """Sort candidates (C, k) in tiles of nearly equal size, at most ``tile``."""
    count, k = candidates.shape
    tiles = -(-count // tile)
    size = -(-count // max(1, tiles))
    columns = Columns(
        np.full((tiles, k, -(-size // BLOCK) * BLOCK), np.inf, candidates.dtype),
        np.empty((tiles, k, size), np.uint16),
        np.tile(np.array([np.inf, -np.inf], candidates.dtype), (k, 1)),
    )
    in_threads(_sort_share, threads, candidates, *columns)
    return columns


@cached
def _sort_share(share, shares, candidates, entries, places, ranges):  # type: ignore[no-untyped-def]
    tiles, k, size = places.shape
    order = np.empty(size, np.int64)
    codes, spare = np.empty(size, np.uint64), np.empty(size, np.uint64)
    for tile in range(tiles):
        vectors = candidates[tile * size : (tile + 1) * size]
        for i in range(share, k, shares):
            column = vectors[:, i].copy()
            argsort(column, order, codes, spare)
            for n in range(len(column)):
                entries[tile, i, n] = column[order[n]]
                places[tile, i, n] = order[n]
            ranges[i, 0] = min(ranges[i, 0], entries[tile, i, 0])
            ranges[i, 1] = max(ranges[i, 1], entries[tile, i, len(column) - 1])


class ColumnCache:
    """The columns of candidate tables that are asked for again and again, as an evaluation does.

    A table's columns are kept while its tensor lives, and used while it holds the same numbers.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, torch.dtype, int], tuple[Tensor, Columns]] = {}

    def columns(self, candidates: Tensor, tile: int, threads: int) -> Columns:
        key = id(candidates), candidates.dtype, tile
        kept = self._kept.get(key)
        if kept is not None and (is_frozen() or candidates.equal(kept[0])):
            return kept[1]
        if kept is None:
            weakref.finalize(candidates, self._kept.pop, key, None).atexit = False
        numbers = candidates.detach().clone(memory_format=torch.contiguous_format)
        columns = sort_columns(numbers.numpy(), tile, threads)
        self._kept[key] = numbers, columns
        return columns
