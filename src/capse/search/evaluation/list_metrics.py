"""Scores to metrics of ranked lists, each in expectation over all orders of the documents that tie.

A scorer that gives every document the same score gets chance, whatever the order in which the documents stand, and a
list gets the same figures however it is shuffled. Each is an exact sum over tie groups: g documents with one score, r
of them relevant, s documents before them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capse.arrays import Bools, Float64s, Int64s
from capse.errors import DivergenceError

DEPTH = 10  # of NDCG
DISCOUNTS = 1 / np.log2(np.arange(2.0, DEPTH + 2))  # (10,) what a relevant document is worth at each position
NAMES = ("mrr", "hits@1", "ndcg@10")


@dataclass(frozen=True)
class ListMetrics:
    """What each of n lists contributes; the mean over lists is the result. A list without a relevant document has 0."""

    mrr: Float64s  # (n,) reciprocal rank of the first relevant document
    hits1: Float64s  # (n,) whether the first document is relevant
    ndcg10: Float64s  # (n,) binary gains

    def __len__(self) -> int:
        return len(self.mrr)

    def __getitem__(self, chosen: Bools | Int64s) -> ListMetrics:
        return ListMetrics(self.mrr[chosen], self.hits1[chosen], self.ndcg10[chosen])

    @property
    def table(self) -> Float64s:
        """(n, 3), columns as in NAMES."""
        return np.stack([self.mrr, self.hits1, self.ndcg10], axis=1)

    def means(self, weights: Float64s | None = None) -> dict[str, float]:
        """The mean of each metric under its name; with ``weights`` (n,) the weighted mean."""
        if weights is None:
            return dict(zip(NAMES, self.table.mean(axis=0).tolist(), strict=True))
        return dict(zip(NAMES, np.average(self.table, axis=0, weights=weights).tolist(), strict=True))


def list_metrics(scores: Float64s, relevant: Bools, lengths: Int64s, *, method: str = "the ranker") -> ListMetrics:
    """Metrics of lists that stand one after the other, given scores (rows,) and labels (rows,); higher is better.

    ``method`` names the scorer in the error about a score that is not finite.

    >>> tied = list_metrics(np.array([0.0, 0.0, 2.0, 1.0]), np.array([True, False, False, True]), np.array([2, 2]))
    >>> tied.mrr, tied.hits1
    (array([0.75, 0.5 ]), array([0.5, 0. ]))
    """
    groups = _tie_groups(scores, relevant, lengths, method)
    return ListMetrics(_first_relevant(groups, lengths), _first_place(groups, lengths), _discounted(groups, lengths))


def expected_chance(relevant: Bools, lengths: Int64s) -> ListMetrics:
    """The metrics of an order drawn at random.

    >>> expected_chance(np.array([False, True, False, False]), np.array([4])).mrr.round(3)
    array([0.521])
    """
    return list_metrics(np.zeros(len(relevant)), relevant, lengths)


def click_reciprocal_ranks(
    scores: Float64s, relevant: Bools, lengths: Int64s, *, method: str = "the ranker"
) -> Float64s:
    """The reciprocal rank of every relevant document, not just the first of each list: (clicks,), in order of rows.

    A document of a tie group stands at each of the group's places equally often: (1/(s+1) + ... + 1/(s+g)) / g.

    >>> click_reciprocal_ranks(np.array([3.0, 2.0, 1.0]), np.array([True, False, True]), np.array([3])).round(3)
    array([1.   , 0.333])
    """
    groups = _tie_groups(scores, relevant, lengths, method)
    longest = int(lengths.max(initial=0))
    return _mean_worth(groups, 1 / np.arange(1.0, longest + 1))[groups.of_row[relevant]]


def click_metrics(scores: Float64s, relevant: Bools, lengths: Int64s) -> ListMetrics:
    """The same for every relevant document by its own rank (clicks,), in order of rows, whatever others its list has.

    >>> click_metrics(np.array([3.0, 2.0, 1.0]), np.array([True, False, True]), np.array([3])).table.round(3)
    array([[1.   , 1.   , 1.   ],
           [0.333, 0.   , 0.5  ]])
    """
    groups = _tie_groups(scores, relevant, lengths, "the ranker")
    places = 1 / np.arange(1.0, int(lengths.max(initial=0)) + 1)
    worths = (places, np.ones(1), DISCOUNTS)
    return ListMetrics(*(_mean_worth(groups, worth)[groups.of_row[relevant]] for worth in worths))


def graded_ndcg(scores: Float64s, gains: Float64s, lengths: Int64s) -> Float64s:
    """(n,) NDCG@10 of lists whose results are worth ``gains`` (rows,), those below 0 nothing; 0 where all are.

    >>> graded_ndcg(np.array([2.0, 1.0]), np.array([1.0, 3.0]), np.array([2])).round(3)
    array([0.797])
    """
    worth = np.maximum(gains, 0.0)
    groups = _tie_groups(scores, worth > 0, lengths, "the ranker")
    owner = np.repeat(np.arange(len(lengths)), lengths)
    found = np.bincount(owner, worth * _mean_worth(groups, DISCOUNTS)[groups.of_row], len(lengths))
    best = np.lexsort((-worth, owner))
    place = np.arange(len(worth)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    discounts = np.where(place < DEPTH, DISCOUNTS[np.minimum(place, DEPTH - 1)], 0.0)
    ideal = np.bincount(owner, worth[best] * discounts, len(lengths))
    return np.asarray(found / np.where(ideal > 0, ideal, 1), np.float64)


@dataclass(frozen=True)
class _TieGroups:
    """Groups of documents of one list with one score, list after list, the best score of each first."""

    of_row: Int64s  # (rows,) the group of each row
    list: Int64s  # (groups,)
    before: Int64s  # (groups,) s
    size: Int64s  # (groups,) g
    relevant: Int64s  # (groups,) r


def _tie_groups(scores: Float64s, relevant: Bools, lengths: Int64s, method: str) -> _TieGroups:
    rows = int(lengths.sum())
    if len(scores) != rows or len(relevant) != rows:
        raise ValueError(f"{len(scores)} scores and {len(relevant)} labels for lists with {rows} documents")
    lists = np.repeat(np.arange(len(lengths)), lengths)
    if not np.isfinite(scores).all():
        row = int(np.isfinite(scores).argmin())
        raise DivergenceError(
            f"{method} scores a document of list {lists[row]} as {scores[row]}, so the list has no order",
            "its training diverged or its vectors are not finite; train it again with a lower learning rate",
        )
    order = np.lexsort((-scores, lists))
    in_list, in_score = lists[order], scores[order]
    begins = np.ones(rows, np.bool_)
    begins[1:] = (in_list[1:] != in_list[:-1]) | (in_score[1:] != in_score[:-1])
    starts = np.flatnonzero(begins)
    of_row = np.empty(rows, np.int64)
    of_row[order] = np.cumsum(begins) - 1
    list_starts = np.cumsum(lengths) - lengths
    return _TieGroups(
        of_row=of_row,
        list=in_list[starts],
        before=starts - list_starts[in_list[starts]],
        size=np.diff(starts, append=rows),
        relevant=np.bincount(of_row[relevant], minlength=len(starts)),
    )


def _first_relevant(groups: _TieGroups, lengths: Int64s) -> Float64s:
    """(n,) sum over j of P(the first relevant document is the group's j-th) / (s + j), in the first group that has one.

    Given that the j − 1 before it are irrelevant, the j-th of the group is relevant with probability r / (g − j + 1).
    """
    values = np.zeros(len(lengths))
    hopeful = np.flatnonzero(groups.relevant)
    lists, first = np.unique(groups.list[hopeful], return_index=True)
    deciding = hopeful[first]
    before, left, relevant = groups.before[deciding], groups.size[deciding], groups.relevant[deciding]
    reached = np.ones(len(lists))  # the probability that no relevant document came before the j-th
    while len(lists):
        before, chance = before + 1, relevant / left
        values[lists] += reached * chance / before
        reached, left = reached * (1 - chance), left - 1
        open_ = reached > 0
        lists, before, left = lists[open_], before[open_], left[open_]
        relevant, reached = relevant[open_], reached[open_]
    return values


def _first_place(groups: _TieGroups, lengths: Int64s) -> Float64s:
    """(n,) r / g of the first group."""
    values = np.zeros(len(lengths))
    first = groups.before == 0
    values[groups.list[first]] = groups.relevant[first] / groups.size[first]
    return values


def _discounted(groups: _TieGroups, lengths: Int64s) -> Float64s:
    """(n,) the discounts that relevant documents get on average, over those they would get in the best order."""
    gained = np.bincount(groups.list, groups.relevant * _mean_worth(groups, DISCOUNTS), minlength=len(lengths))
    relevant = np.bincount(groups.list, groups.relevant, minlength=len(lengths)).astype(np.int64)
    ideal = np.concatenate([[1.0], np.cumsum(DISCOUNTS)])[np.minimum(relevant, DEPTH)]  # 0 / 1 where there is none
    return np.asarray(gained / ideal, np.float64)


def _mean_worth(groups: _TieGroups, worth: Float64s) -> Float64s:
    """(groups,) the mean over a group's places of what each place is worth; a place beyond the last is worth 0."""
    sums = np.concatenate([[0.0], np.cumsum(worth)])
    ends = np.minimum(groups.before + groups.size, len(worth))
    starts = np.minimum(groups.before, len(worth))
    mean = (sums[ends] - sums[starts]) / groups.size
    # A document without ties has one place, whose worth needs no difference of sums.
    alone = (groups.size == 1) & (groups.before < len(worth))
    mean[alone] = worth[groups.before[alone]]
    return np.asarray(mean, np.float64)
