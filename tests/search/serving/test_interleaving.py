"""Team drafts: every document once, both orders equally near the top, and the same list for the same question."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from capse.search.serving.interleaving import coins, interleave, team_draft
from capse.search.serving.reranker import RankedDocument


@pytest.mark.parametrize("seed", range(5))
def test_every_document_stands_once_and_each_round_has_one_of_both(seed: int) -> None:
    draw = np.random.default_rng(seed)
    a, b = draw.permutation(9).tolist(), draw.permutation(9).tolist()
    order, teams = team_draft(a, b, coins(str(seed)))
    assert sorted(order) == list(range(9))
    assert all(set(teams[start : start + 2]) == set("ab") for start in range(0, 8, 2))
    for place, (one, team) in enumerate(zip(order, teams, strict=True)):
        left = [other for other in (a if team == "a" else b) if other not in order[:place]]
        assert one == left[0], "a team picks the best that is left to it"


def test_two_orders_that_are_one_stay_it() -> None:
    assert team_draft("wxyz", "wxyz", coins("any"))[0] == list("wxyz")


def test_coins_are_fair_and_the_same_for_the_same_question() -> None:
    assert list(islice(coins("trial", "ada"), 50)) == list(islice(coins("trial", "ada"), 50))
    assert list(islice(coins("trial", "ada"), 50)) != list(islice(coins("trial", "bob"), 50))
    assert 0.45 < np.mean(list(islice(coins("many"), 2_000))) < 0.55


def test_a_document_is_as_its_team_has_it_but_for_its_rank() -> None:
    a = [RankedDocument("x", 9.0, 1, 1), RankedDocument("y", 8.0, 2, 2)]
    b = [RankedDocument("y", 0.2, 2, 1), RankedDocument("x", 0.1, 1, 2)]
    documents, teams = interleave(a, b, [True])
    assert [(one.document, one.score, one.rank) for one in documents] == [("x", 9.0, 1), ("y", 0.2, 2)]
    assert teams == "ab"
