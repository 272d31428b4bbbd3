"""Sums over a fixed number of parts, in an order that does not depend on who has which part.

Floating-point addition is not associative, so the parts 0 … n − 1 are the leaves of a tree: neighbours are added, then
neighbouring pairs, and so on. A process adds up whatever whole subtrees its parts make (*nodes*) and sends those; the
rest of the tree is added by whoever gets them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")

Node = tuple[int, int]  # the first of its parts, and how many: a power of two


class Rows(NamedTuple):
    """Some rows of a table (n, k): the others are zero."""

    ids: Tensor  # (m,) distinct, ascending
    values: Tensor  # (m, k)


def add_rows(one: Rows, other: Rows) -> Rows:
    ids = torch.cat([one.ids, other.ids]).unique()
    values = one.values.new_zeros(len(ids), one.values.shape[1])
    values.index_copy_(0, torch.searchsorted(ids, one.ids), one.values)
    values.index_add_(0, torch.searchsorted(ids, other.ids), other.values)
    return Rows(ids, values)


def nodes_of(parts: range) -> list[Node]:
    """The largest whole subtrees that some neighbouring parts make.

    >>> nodes_of(range(4, 8)), nodes_of(range(2, 5))
    ([(4, 4)], [(2, 2), (4, 1)])
    """
    nodes, first = [], parts.start
    while first < parts.stop:
        count = first & -first or 1 << (parts.stop - first).bit_length()
        while first + count > parts.stop:
            count //= 2
        nodes.append((first, count))
        first += count
    return nodes


def add_up(known: Mapping[Node, T | None], node: Node, add: Callable[[T, T], T]) -> T | None:
    """The sum of a node, of sums of nodes below it; a part without anything is None.

    >>> add_up({(0, 2): "a", (2, 1): "b", (3, 1): None}, (0, 4), lambda x, y: f"({x} + {y})")
    '(a + b)'
    """
    if node in known:
        return known[node]
    first, count = node
    if count == 1:
        raise KeyError(f"nobody sent part {first}")
    left, right = (add_up(known, (start, count // 2), add) for start in (first, first + count // 2))
    if left is None or right is None:
        return right if left is None else left
    return add(left, right)
