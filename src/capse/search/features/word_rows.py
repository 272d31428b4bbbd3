"""Sparse rows of numbers in plain arrays, for answering a request: scipy's cost more to make than to use.

Columns ascend within a row, and every sum goes through a row in that order, so that a row gives the same bits alone as
among others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numba
import numpy as np

from capse.arrays import Float64s, Int64s

_MUCH_SHORTER = 8  # times: from there on halving takes fewer steps


@dataclass(frozen=True)
class Rows:
    """n rows; that of i lies at ``starts[i]:starts[i + 1]``."""

    starts: Int64s  # (n + 1,)
    columns: Int64s  # (z,)
    values: Float64s  # (z,)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of(cls, rows: Iterable[Mapping[int, float]]) -> Rows:
        """From the values of each row by their columns."""
        columns: list[int] = []
        values: list[float] = []
        ends = [0]
        for row in rows:
            ordered = sorted(row)
            columns += ordered
            values += [row[column] for column in ordered]
            ends.append(len(columns))
        return cls(np.array(ends, np.int64), np.array(columns, np.int64), np.array(values, np.float64))

    @classmethod
    def counted(cls, texts: Iterable[Mapping[str, int]], vocabulary: Mapping[str, int]) -> Rows:
        """Word counts; words outside the vocabulary are left out.

        >>> Rows.counted([{"b": 2, "x": 1, "a": 1}, {}], {"a": 0, "b": 1})
        Rows(starts=array([0, 2, 2]), columns=array([0, 1]), values=array([1., 2.]))
        """
        return cls.of({vocabulary[word]: n for word, n in text.items() if word in vocabulary} for text in texts)

    @classmethod
    def present(cls, texts: Iterable[Iterable[str]], vocabulary: Mapping[str, int]) -> Rows:
        """Which words of the vocabulary each text has: 1 for each."""
        return cls.counted((dict.fromkeys(text, 1) for text in texts), vocabulary)

    @classmethod
    def stacked(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of several, one after the other."""
        starts = np.concatenate([[0], *(np.diff(part.starts) for part in parts)]).cumsum()
        columns, values = (np.concatenate([getattr(part, name) for part in parts]) for name in ("columns", "values"))
        return cls(starts, columns, values)

    @cached_property
    def sums(self) -> Float64s:
        """(n,)"""
        return np.bincount(self.owner, self.values, len(self)).astype(np.float64)

    @cached_property
    def width(self) -> int:
        """One more than the last column that has anything."""
        return int(self.columns.max(initial=-1)) + 1

    @cached_property
    def owner(self) -> Int64s:
        """(z,) the row of each value."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    @cached_property
    def signs(self) -> Rows:
        """1 where a row has anything."""
        return replace(self, values=np.ones(len(self.values)))

    def weighted(self, weights: Float64s) -> Rows:
        """Each column multiplied by its weight."""
        return replace(self, values=self.values * weights[self.columns])

    def unit(self) -> Rows:
        """Each row divided by its length; an empty row stays empty."""
        lengths = np.sqrt(np.bincount(self.owner, self.values**2, len(self)))
        return replace(self, values=self.values / np.where(lengths > 0, lengths, 1)[self.owner])

    def take(self, rows: Int64s) -> Rows:
        """Some rows, in this order."""
        lengths = np.diff(self.starts)[rows]
        ends = np.cumsum(lengths)
        places = np.repeat(self.starts[rows] - ends + lengths, lengths) + np.arange(int(lengths.sum()))
        return Rows(np.concatenate([[0], ends]), self.columns[places], self.values[places])

    def rarity(self, columns: int) -> Float64s:
        """(columns,) how rare each is: ln(1 + (n - f + 0.5) / (f + 0.5)) for one that f of the n rows have."""
        found = np.bincount(self.columns, minlength=columns)
        return np.asarray(np.log1p((len(self) - found + 0.5) / (found + 0.5)), np.float64)


def paired(left: Rows, i: Any, right: Rows, j: Any) -> Float64s:
    """The inner products of rows ``left[i[p]]`` and ``right[j[p]]`` for every pair p."""
    products = np.zeros(len(i))
    _paired(left.starts, left.columns, left.values, i, right.starts, right.columns, right.values, j, products)
    return products


def paired_in_runs(rows: Rows, i: Any, j: Any) -> Float64s:
    """The same of ``rows[i[p]]`` and ``rows[j[p]]``, faster where an i stands in many pairs one after the other."""
    products = np.zeros(len(i))
    _paired_in_runs(rows.starts, rows.columns, rows.values, i, j, np.zeros(rows.width), products)
    return products


@numba.njit(cache=True)
def _paired_in_runs(starts: Any, columns: Any, values: Any, i: Any, j: Any, spread: Any, out: Any) -> None:
    """A row that is spread out over all columns is met by each of the others without a search."""
    begin = end = 0
    for p in range(len(i)):
        if p == 0 or i[p] != i[p - 1]:
            for place in range(begin, end):
                spread[columns[place]] = 0.0
            begin, end = starts[i[p]], starts[i[p] + 1]
            for place in range(begin, end):
                spread[columns[place]] = values[place]
        total = 0.0
        for place in range(starts[j[p]], starts[j[p] + 1]):
            total += spread[columns[place]] * values[place]
        out[p] = total


@numba.njit(cache=True)
def _paired(
    starts: Any,
    columns: Any,
    values: Any,
    i: Any,
    other_starts: Any,
    other_columns: Any,
    other_values: Any,
    j: Any,
    out: Any,
) -> None:
    for p in range(len(i)):
        a, a_end = starts[i[p]], starts[i[p] + 1]
        b, b_end = other_starts[j[p]], other_starts[j[p] + 1]
        if _MUCH_SHORTER * (a_end - a) < b_end - b:
            out[p] = _by_halving(columns, values, a, a_end, other_columns, other_values, b, b_end)
        else:
            out[p] = _side_by_side(columns, values, a, a_end, other_columns, other_values, b, b_end)


@numba.njit(cache=True)
def _by_halving(columns: Any, values: Any, a: Any, a_end: Any, others: Any, weights: Any, b: Any, b_end: Any) -> Any:
    """A few columns, each looked for by halving what is left of many."""
    total = 0.0
    for place in range(a, a_end):
        low, high = b, b_end
        while low < high:
            middle = (low + high) // 2
            if others[middle] < columns[place]:
                low = middle + 1
            else:
                high = middle
        b = low
        if b < b_end and others[b] == columns[place]:
            total += values[place] * weights[b]
    return total


@numba.njit(cache=True)
def _side_by_side(columns: Any, values: Any, a: Any, a_end: Any, others: Any, weights: Any, b: Any, b_end: Any) -> Any:
    """As many columns here as there, looked through together; no branch depends on which is the lower."""
    total = 0.0
    while a < a_end and b < b_end:
        here, there = columns[a], others[b]
        if here == there:
            total += values[a] * weights[b]
        a += int(here <= there)
        b += int(there <= here)
    return total
