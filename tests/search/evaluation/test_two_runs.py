"""Two runs that served at once: what differs is found, what does not is not, and a wrong deal decides nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from capse.errors import DataError
from capse.evaluation.clusters import cluster_difference
from capse.search.evaluation.two_runs import ListOutcome, compare_arms, compare_interleaved


def outcomes(seed: int, gain: float, users: int = 60, share: float = 0.5) -> Iterator[ListOutcome]:
    """Users with a taste of their own for clicking at all, who click sooner in lists of b."""
    draw = np.random.default_rng(seed)
    for user in range(users):
        arm, active = "b" if user < users * share else "a", draw.uniform(0.2, 0.9)
        for _ in range(int(draw.integers(1, 12))):
            rank = int(draw.geometric(0.35 + (gain if arm == "b" else 0)))
            clicked = (rank,) if draw.random() < active else ()
            yield ListOutcome(user, arm, clicked, float(len(clicked)))


def test_a_run_that_is_better_is_said_to_be() -> None:
    lists = list(outcomes(0, 0.4, users=200))
    found = compare_arms(lists, 0.5)
    assert found.better == "b"
    assert found.differences["mrr"].low > 0
    assert found.verdict.startswith("b is better: mrr of b minus a is +0.")
    swapped = [ListOutcome(one.user, "ab"[one.arm == "a"], one.clicked, one.worth) for one in lists]
    assert compare_arms(swapped, 0.5).better == "a"


def test_two_runs_that_are_the_same_are_hardly_told_apart() -> None:
    """In about one of twenty trials a difference is found that is not there, as a test over users should."""
    found = [compare_arms(list(outcomes(seed, 0.0)), 0.5) for seed in range(60)]
    assert sum(one.better is not None for one in found) <= 8
    inside = [one.differences["mrr"].low <= 0 <= one.differences["mrr"].high for one in found]
    assert sum(inside) >= 50


def test_figures_are_means_over_lists() -> None:
    lists = [ListOutcome(user, "ab"[user % 2], (2, 3) if user < 20 else (), 1.5) for user in range(40)]
    found = compare_arms(lists, 0.5)
    assert (found.arms["a"].mrr, found.arms["a"].clicked, found.arms["b"].worth) == (0.25, 0.5, 1.5)
    assert (found.lists, found.users, found.differences["mrr"].mean) == (40, 40, 0.0)


def test_a_deal_that_went_wrong_decides_nothing() -> None:
    """Ten times as many users of b as were meant: something other than the hash chose them."""
    lists = list(outcomes(0, 0.4, users=200))
    assert compare_arms(lists, 0.5).better == "b"
    wrong = compare_arms(lists, 0.05)
    assert wrong.better is None
    assert wrong.uneven < 1e-9


def test_lists_prefer_whose_documents_were_clicked() -> None:
    draw = np.random.default_rng(0)
    lists = []
    for user in range(80):
        arm = "".join(draw.permutation(list("ab"))) * 3
        places = [rank for rank in range(1, 7) if draw.random() < (0.5 if arm[rank - 1] == "b" else 0.2)]
        lists.append(ListOutcome(user, arm, tuple(places), float(len(places))))
    found = compare_interleaved(lists)
    assert (found.better, found.arms, found.decided_by) == ("b", {}, "preference")
    even = [ListOutcome(user, "ab", (1 + user % 2,), 1.0) for user in range(80)]
    assert compare_interleaved(even).better is None


def test_few_users_tell_nothing() -> None:
    lists = list(outcomes(0, 0.4, users=19))
    with pytest.raises(DataError, match=r"9 users had lists of run a"):
        compare_arms(lists, 0.5)
    with pytest.raises(DataError, match=r"1 users had interleaved lists"):
        compare_interleaved([ListOutcome(0, "ab", (1,), 1.0)])


def test_the_difference_of_two_groups_is_that_of_drawing_users_of_both() -> None:
    """Beside the variance of two means by the formula, for users of one list each."""
    draw = np.random.default_rng(1)
    first, second = draw.normal(0, 1, 400), draw.normal(0.1, 2, 300)
    (low, high), p_value = cluster_difference(first, np.arange(400), second, np.arange(300))
    error = np.sqrt(first.var(ddof=1) / 400 + second.var(ddof=1) / 300)
    assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.1)
    assert 0 < p_value < 1
    assert cluster_difference(first, np.zeros(400, int), second, np.arange(300))[1] == 1.0
