"""Named columns of numbers over result rows, and what a number is worth within its list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from capse.arrays import Float32s, Float64s, Int64s
from capse.errors import SettingsError


@dataclass(frozen=True)
class FeatureTable:
    """F features of some result rows; NaN where a feature has no value."""

    names: tuple[str, ...]
    values: Float32s  # (rows, F)

    def __len__(self) -> int:
        return len(self.values)

    def column(self, name: str) -> Float32s:
        return self.values[:, self.names.index(name)]

    def select(self, keep: Callable[[str], bool]) -> FeatureTable:
        """The columns whose name passes.

        >>> FeatureTable.of({"a": np.ones(2), "b": np.zeros(2)}, 2).select(lambda name: name == "b").values
        array([[0.],
               [0.]], dtype=float32)
        """
        places = [place for place, name in enumerate(self.names) if keep(name)]
        return FeatureTable(tuple(self.names[place] for place in places), self.values[:, places])

    @classmethod
    def of(cls, columns: Mapping[str, npt.NDArray[Any]], rows: int) -> FeatureTable:
        """A table of ``rows`` rows from its columns."""
        values = np.empty((rows, len(columns)), np.float32)
        for place, (name, column) in enumerate(columns.items()):
            if column.shape != (rows,):
                raise SettingsError(
                    f"feature {name!r} has shape {column.shape}", f"give one number for each of {rows} results"
                )
            values[:, place] = column
        return cls(tuple(columns), values)

    @classmethod
    def beside(cls, tables: Sequence[FeatureTable]) -> FeatureTable:
        """Several tables over the same rows as one."""
        names = tuple(name for table in tables for name in table.names)
        return cls(names, np.concatenate([table.values for table in tables], axis=1))


def ranks_within(values: npt.NDArray[Any], lengths: Int64s) -> Float64s:
    """How many results of its list have a higher value, for every result; a missing value counts as the lowest.

    >>> ranks_within(np.array([0.5, 2.0, 0.5, 7.0]), np.array([3, 1]))
    array([1., 0., 1., 0.])
    """
    ranks = np.empty(len(values))
    _count_higher(np.asarray(values, np.float64), lengths, ranks)
    return ranks


def below_best(values: npt.NDArray[Any], lengths: Int64s) -> Float64s:
    """How far each value lies below the highest of its list, as a number from 0 (the best) downwards.

    >>> below_best(np.array([0.5, 2.0, 0.5, 7.0]), np.array([3, 1]))
    array([-1.5,  0. , -1.5,  0. ])
    """
    below = np.empty(len(values))
    _subtract_best(np.asarray(values, np.float64), lengths, below)
    return below


def standardised(values: npt.NDArray[Any], lengths: Int64s) -> Float64s:
    """Every value less the mean of its list, divided by the list's standard deviation; 0 where all are equal.

    >>> standardised(np.array([1.0, 3.0, 5.0]), np.array([2, 1]))
    array([-1.,  1.,  0.])
    """
    owner = np.repeat(np.arange(len(lengths)), lengths)
    sizes = np.maximum(lengths, 1)
    centred = values - (np.bincount(owner, values, len(lengths)) / sizes)[owner]
    spread = np.sqrt(np.bincount(owner, centred**2, len(lengths)) / sizes)[owner]
    return np.asarray(centred / np.where(spread > 0, spread, 1), np.float64)


@numba.njit(cache=True)
def _count_higher(values: Any, lengths: Any, ranks: Any) -> None:
    start = 0
    for length in lengths:
        for i in range(start, start + length):
            count = 0
            for j in range(start, start + length):
                count += values[j] > values[i] or (np.isnan(values[i]) and not np.isnan(values[j]))
            ranks[i] = count
        start += length


@numba.njit(cache=True)
def _subtract_best(values: Any, lengths: Any, below: Any) -> None:
    start = 0
    for length in lengths:
        if length:
            best = values[start]
            for i in range(start + 1, start + length):
                if values[i] > best or np.isnan(values[i]):
                    best = values[i]
            for i in range(start, start + length):
                below[i] = values[i] - best
        start += length
