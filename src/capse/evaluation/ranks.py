"""Scores to ranks: where the true candidate stands among its competitors, with ties kept apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from capse.arrays import Float64s, Int64s
from capse.errors import DivergenceError
from capse.kernels.counting import count_competitors
from capse.kernels.exact import Rescore, count_exactly
from capse.triples import Answers, Ids


class NonFiniteScoreError(DivergenceError):
    """A model gave NaN or an infinity to a candidate, so there are no ranks; ``row`` is the query's."""

    def __init__(self, score: float, row: int, candidate: int, what: str = "") -> None:
        super().__init__(
            f"the model scores {what or f'candidate {candidate} of query {row}'} as {score}",
            "its training diverged; lower the learning rate and train it again",
        )
        self.score, self.row, self.candidate = score, row, candidate


@dataclass(frozen=True)
class Ranks:
    """The standing of n true candidates; rank 1 is the best.

    >>> ranks = Ranks(greater=np.array([0, 3]), equal=np.array([0, 4]), candidates=np.array([10, 10]))
    >>> ranks.optimistic, ranks.realistic, ranks.pessimistic
    (array([1., 4.]), array([1., 6.]), array([1., 8.]))
    """

    greater: Int64s  # (n,) competitors that score higher
    equal: Int64s  # (n,) competitors with exactly the same score
    candidates: Int64s  # (n,) all competitors, and the true one

    @property
    def optimistic(self) -> Float64s:
        """The true candidate before all its ties."""
        return self.greater.astype(np.float64) + 1

    @property
    def pessimistic(self) -> Float64s:
        """The true candidate behind all its ties."""
        return (self.greater + self.equal).astype(np.float64) + 1

    @property
    def realistic(self) -> Float64s:
        """The mean of the optimistic and the pessimistic rank."""
        return (self.optimistic + self.pessimistic) / 2

    def __len__(self) -> int:
        return len(self.greater)

    def __getitem__(self, chosen: slice | npt.NDArray[np.bool_] | Ids) -> Ranks:
        return Ranks(self.greater[chosen], self.equal[chosen], self.candidates[chosen])

    @staticmethod
    def concatenate(parts: Sequence[Ranks]) -> Ranks:
        return Ranks(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Ranks)))


def rank_scores(
    scores: Tensor | npt.NDArray[np.floating],
    true: Ids,
    excluded: Answers | None = None,
    *,
    rows: Ids | None = None,
    rescore: Rescore | None = None,
) -> Ranks:
    """Rank candidate ``true[i]`` among the candidates of row ``rows[i]`` (row i by default); higher is better.

    ``scores`` is (q, E), on any device, and is not changed. ``excluded[j]`` are the distinct candidates of row j that
    do not compete; the true one among them does no harm. The true score is read from the same row as its competitors',
    so what is equal there ties. With ``rescore``, which gives the float64 scores (r, c) of r rows and c candidates,
    ranks are those of float64.

    >>> rank_scores(np.array([[0.1, 0.7, 0.7, 0.9]]), np.array([1]))
    Ranks(greater=array([1]), equal=array([1]), candidates=array([4]))
    >>> known = Answers(offsets=np.array([0, 2]), entities=np.array([1, 3]))
    >>> rank_scores(np.array([[0.1, 0.7, 0.7, 0.9]]), np.array([1]), known)
    Ranks(greater=array([0]), equal=array([1]), candidates=array([3]))
    """
    table = torch.as_tensor(scores)
    candidates = np.ascontiguousarray(true, np.int64)
    of_rows = np.ascontiguousarray(np.arange(len(true)) if rows is None else rows, np.int64)
    if excluded is None:
        excluded = Answers(np.zeros(len(table) + 1, np.int64), np.empty(0, np.int64))
    _require_indices(candidates, table.shape[1], "candidate")
    _require_indices(of_rows, min(len(table), len(excluded)), "row")
    arguments = table, of_rows, candidates, excluded.offsets, excluded.entities
    counts = count_competitors(*arguments) if rescore is None else count_exactly(*arguments, rescore)
    if not counts.finite.all():
        row = int(of_rows[counts.finite.argmin()])
        candidate = int(table[row].isfinite().logical_not().nonzero()[0])
        raise NonFiniteScoreError(float(table[row, candidate]), row, candidate)
    return Ranks(counts.greater, counts.equal, counts.competitors + 1)


def _require_indices(indices: Int64s, size: int, name: str) -> None:
    if len(indices) and (indices.min() < 0 or indices.max() >= size):
        raise IndexError(f"{name} {indices.min()} to {indices.max()}, but there are {size}")
