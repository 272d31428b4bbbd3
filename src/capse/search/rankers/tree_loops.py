"""LightGBM's trees as arrays and one compiled loop: ten documents are scored before LightGBM would have begun.

The text that LightGBM saves is all that is read, so a service needs no LightGBM. Scores are LightGBM's own, bit by bit:
the same comparisons, and the leaves' values added tree after tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numba
import numpy as np

from capse.arrays import Bools, Float32s, Float64s, Int64s

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
        feature, zero_is_gap, gap_goes_left = self._sides
        sides = values[:, feature]
        gap = np.isnan(sides) | (zero_is_gap & (np.abs(sides) <= _TINY))
        np.copyto(sides, np.where(gap_goes_left, -np.inf, np.nan), where=gap, casting="same_kind")
        arrays = (sides, *self._paths, scores)
        _walk(*arrays)
        return scores

    @cached_property
    def _gaps(self) -> tuple[Bools, Bools]:
        """(nodes,) whether zero counts as missing, and whether what is missing goes left: else it counts as zero."""
        missing, default_left = (self.decision >> 2) & 3, self.decision & _DEFAULT_LEFT != 0
        return missing == _ZERO, np.where((missing == _ZERO) | (missing == _NAN), default_left, self.threshold >= 0)

    @cached_property
    def _kinds(self) -> Int64s:
        """(nodes,) the feature, and what becomes of its gaps."""
        zero_is_gap, gap_goes_left = self._gaps
        return 4 * self.feature + 2 * zero_is_gap + gap_goes_left

    @cached_property
    def _sides(self) -> tuple[Int64s, Bools, Bools]:
        """Columns to compare with thresholds alone: a feature for each way in which nodes treat its gaps.

        In place of a gap stands what is below every threshold, or what is below none.
        """
        kinds = np.unique(self._kinds)
        return kinds // 4, kinds & 2 != 0, kinds & 1 != 0

    @cached_property
    def _paths(self) -> tuple[Any, ...]:
        """The same as a walk needs it: leaves are nodes too, from which every way leads back to them."""
        tree, inner = np.repeat(np.arange(len(self.nodes) - 1), np.diff(self.nodes)), len(self.feature)
        children = np.stack(
            [
                np.where(child >= 0, self.nodes[tree] + child, inner + self.leaves[tree] + ~child)
                for child in (self.left, self.right)
            ],
            axis=1,
        )
        leaves = np.arange(inner, inner + len(self.value))
        none = np.zeros(len(leaves))
        roots = np.where(np.diff(self.nodes) > 0, self.nodes[:-1], inner + self.leaves[:-1])  # a tree may be but a leaf
        return (
            roots.astype(np.uint32),
            _depths(self.nodes, children),
            np.concatenate([np.unique(self._kinds, return_inverse=True)[1], none]).astype(np.uint32),
            np.concatenate([children, np.stack([leaves, leaves], axis=1)]).astype(np.uint32),
            np.concatenate([_rounded_down(self.threshold), none]).astype(np.float32),
            np.concatenate([np.zeros(inner), self.value]),
        )


def _rounded_down(thresholds: Float64s) -> Float32s:
    """The highest number that a value can have and be no higher than the threshold."""
    with np.errstate(over="ignore"):
        near = thresholds.astype(np.float32)
        return np.where(near > thresholds, np.nextafter(near, np.float32(-np.inf)), near)


def _fields(part: str) -> Mapping[str, str]:
    pairs = (line.partition("=") for line in part.splitlines() if "=" in line)
    return {name: value for name, _, value in pairs}


@numba.njit(cache=True)
def _depths(nodes: Any, children: Any) -> Any:
    """(trees,) how many steps the longest way to a leaf has; children come after their parents."""
    depths, steps = np.zeros(len(nodes) - 1, np.int64), np.zeros(len(children), np.int64)
    for tree in range(len(nodes) - 1):
        for node in range(nodes[tree], nodes[tree + 1]):
            depths[tree] = max(depths[tree], steps[node] + 1)
            for child in children[node]:
                if child < len(children):
                    steps[child] = steps[node] + 1
    return depths


@numba.njit(cache=True)
def _walk(
    sides: Any, roots: Any, depths: Any, side: Any, children: Any, threshold: Any, value: Any, scores: Any
) -> None:
    """Tree after tree, all rows a step at a time: no branch depends on a number, so a processor goes on with the next
    row while it waits for this one's."""
    at = np.empty(len(sides), np.uint32)
    for tree in range(len(roots)):
        at[:] = roots[tree]
        for _ in range(depths[tree]):
            for row in range(len(sides)):
                node = at[row]
                at[row] = children[node, int(not sides[row, side[node]] <= threshold[node])]
        for row in range(len(sides)):
            scores[row] += value[at[row]]
