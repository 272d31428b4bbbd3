"""LightGBM's trees as arrays and one compiled loop: ten documents are scored before LightGBM would have begun.

The text that LightGBM saves is all that is read, so a service needs no LightGBM. Scores are LightGBM's own, bit by bit:
the same comparisons, and the leaves' values added tree after tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from capse.arrays import Float32s, Float64s, Int64s

_CATEGORICAL, _DEFAULT_LEFT = 1, 2  # bits of a decision type; the two above them say what is missing
_ZERO, _NAN = 1, 2  # kinds of missing values
_TINY = float(np.float32(1e-35))  # what LightGBM takes for zero


@dataclass(frozen=True)
class Trees:
    """Inner nodes and leaves of all trees, one after the other; a child below 0 is the leaf ``~child``."""

    features: int
    nodes: Int64s  # (trees + 1,) where each tree's nodes begin
    leaves: Int64s  # (trees + 1,) where each tree's leaves begin
    feature: Int64s
    threshold: Float64s  # a value up to it goes left
    decision: Int64s
    left: Int64s
    right: Int64s
    value: Float64s

    @classmethod
    def parse(cls, text: str) -> Trees:
        """The trees of LightGBM's text; a ValueError where it is damaged."""
        header, *parts = text.split("\nTree=")
        trees = [_fields(part.split("\n\n")[0]) for part in parts]
        if not trees or any(int(tree["num_cat"]) for tree in trees):
            raise ValueError("no trees, or trees over categories")

        def column(name: str, kind: Any, counts: list[int]) -> Any:
            rows = [np.array(tree.get(name, "").split(), kind) for tree in trees]
            if [len(row) for row in rows] != counts:
                raise ValueError(f"{name} is cut off")
            return np.concatenate(rows)

        leaves = [int(tree["num_leaves"]) for tree in trees]
        nodes = [count - 1 for count in leaves]
        inner = {
            name: column(name, np.int64, nodes)
            for name in ("split_feature", "decision_type", "left_child", "right_child")
        }
        features = int(_fields(header)["max_feature_idx"]) + 1
        threshold, value = column("threshold", np.float64, nodes), column("leaf_value", np.float64, leaves)
        first_node, first_leaf = (np.concatenate([[0], np.cumsum(counts)]) for counts in (nodes, leaves))
        found = cls(
            features,
            first_node.astype(np.int64),
            first_leaf.astype(np.int64),
            inner["split_feature"],
            threshold,
            inner["decision_type"],
            inner["left_child"],
            inner["right_child"],
            value,
        )
        found._check()
        return found

    def _check(self) -> None:
        """Children and features that exist, and children after their parents, so that every walk ends at a leaf."""
        tree = np.repeat(np.arange(len(self.nodes) - 1), np.diff(self.nodes))
        place = np.arange(len(self.feature)) - self.nodes[tree]
        for child in (self.left, self.right):
            inner = child >= 0
            if (inner & ((child <= place) | (child >= np.diff(self.nodes)[tree]))).any():
                raise ValueError("a child is no node of its tree")
            if (~inner & (~child >= np.diff(self.leaves)[tree])).any():
                raise ValueError("a child is no leaf of its tree")
        if ((self.feature < 0) | (self.feature >= self.features)).any() or (self.decision & _CATEGORICAL).any():
            raise ValueError("a split of no number")

    def predict(self, values: Float32s) -> Float64s:
        """(rows,) the sum of the leaves that each row of values (rows, F) ends in."""
        scores = np.zeros(len(values))
        _walk(values, self.nodes, self.leaves, self.feature, self.threshold, self.decision, self.left, self.right,
              self.value, scores)  # fmt: skip
        return scores


def _fields(part: str) -> Mapping[str, str]:
    pairs = (line.partition("=") for line in part.splitlines() if "=" in line)
    return {name: value for name, _, value in pairs}


@numba.njit(cache=True)
def _walk(
    values: Any,
    nodes: Any,
    leaves: Any,
    feature: Any,
    threshold: Any,
    decision: Any,
    left: Any,
    right: Any,
    value: Any,
    scores: Any,
) -> None:
    for row in range(len(values)):
        for tree in range(len(nodes) - 1):
            first, node = nodes[tree], 0
            if nodes[tree + 1] == first:  # nothing but a leaf
                node = -1
            while node >= 0:
                at = first + node
                number = float(values[row, feature[at]])
                missing = (decision[at] >> 2) & 3
                if np.isnan(number) and missing != _NAN:
                    number = 0.0
                absent = missing == _NAN and np.isnan(number)
                if absent or (missing == _ZERO and -_TINY <= number <= _TINY):
                    goes_left = decision[at] & _DEFAULT_LEFT != 0
                else:
                    goes_left = number <= threshold[at]
                node = left[at] if goes_left else right[at]
            scores[row] += value[leaves[tree] + ~node]
