"""Numbers for labels, and sparse rows of word counts weighed by rarity."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

import numpy as np
import scipy.sparse

from capse.arrays import Float64s, Int64s

Label = TypeVar("Label", bound=Hashable)


def numbered(labels: Iterable[Label]) -> dict[Label, int]:
    """A number for each distinct label, in order of first appearance."""
    return {label: number for number, label in enumerate(dict.fromkeys(labels))}


def codes(labels: Iterable[Hashable]) -> Int64s:
    """The number of each label.

    >>> codes(["b", "a", "b"])
    array([0, 1, 0])
    """
    labels = list(labels)
    known = numbered(labels)
    return np.array([known[label] for label in labels], np.int64)


def row_sums(rows: scipy.sparse.csr_matrix) -> Float64s:
    return np.asarray(rows.sum(1), np.float64).ravel()


def inverse_frequency(rows: scipy.sparse.csr_matrix) -> Float64s:
    """(V,) how rare a word is: ln(1 + (D - n + 0.5) / (n + 0.5)) for a column that is not zero in n of D rows."""
    found = np.bincount(rows.indices, minlength=rows.shape[1])
    return np.asarray(np.log1p((rows.shape[0] - found + 0.5) / (found + 0.5)), np.float64)


def weigh(rows: scipy.sparse.csr_matrix, weights: Float64s) -> scipy.sparse.csr_matrix:
    """The rows with each column multiplied by its weight."""
    weighted = rows.copy()
    weighted.data = weighted.data * weights[weighted.indices]
    return weighted


def unit_rows(rows: scipy.sparse.csr_matrix, weights: Float64s) -> scipy.sparse.csr_matrix:
    """The weighted rows, each divided by its length; an empty row stays empty."""
    weighted = weigh(rows, weights)
    squares = weighted.copy()
    squares.data = squares.data**2
    lengths = np.sqrt(row_sums(squares))
    weighted.data = weighted.data / np.repeat(np.where(lengths > 0, lengths, 1), np.diff(weighted.indptr))
    return weighted
