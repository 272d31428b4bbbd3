"""Features that compare a document's topics with those of a user's profile, at each time scale."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from capse.arrays import Bools, Float32s, Float64s

# scale -> vectors (r, k) of the user of each result, and (r,) whether there is a profile at all
UserTopics = Mapping[str, tuple[Float32s, Bools]]


def profile_columns(documents: Float32s, users: UserTopics) -> dict[str, Float64s]:
    """Cosine and negative Jensen-Shannon divergence of document (r, k) and profile; NaN where there is no profile."""
    columns = {}
    for scale, (vectors, known) in users.items():
        for name, compare in (("cosine", cosine), ("divergence", negative_divergence)):
            column = np.full(len(documents), np.nan)
            column[known] = compare(documents[known], vectors[known])
            columns[f"{scale}_{name}"] = column
    return columns


def cosine(left: Float32s, right: Float32s) -> Float64s:
    """Cosines of paired rows (r, k); 0 where one is zero."""
    products = (left.astype(np.float64) * right).sum(axis=1)
    lengths = np.linalg.norm(left, axis=1).astype(np.float64) * np.linalg.norm(right, axis=1)
    return np.asarray(products / np.where(lengths > 0, lengths, 1), np.float64)


def negative_divergence(left: Float32s, right: Float32s) -> Float64s:
    """-JS(p, q) = -(KL(p, m) + KL(q, m)) / 2 with m = (p + q) / 2, in nats, of paired rows made to sum to 1.

    >>> negative_divergence(np.eye(2, dtype=np.float32), np.array([[1, 0], [1, 0]], np.float32)).round(4)
    array([-0.    , -0.6931])
    """
    p, q = _distributions(left), _distributions(right)
    middle = np.maximum((p + q) / 2, 1e-30)
    halves = [np.sum(x * np.log(np.maximum(x, 1e-30) / middle), axis=1) for x in (p, q)]
    return np.asarray(-(halves[0] + halves[1]) / 2, np.float64)


def _distributions(rows: Float32s) -> Float64s:
    positive = np.maximum(rows, 0).astype(np.float64)
    return np.asarray(positive / np.maximum(positive.sum(axis=1, keepdims=True), 1e-30), np.float64)
