"""Lists that are judged, and shuffled."""

from __future__ import annotations

import numpy as np

from capse.search.evaluation.judged_lists import JudgedLists, shuffled
from capse.search.logs.history import Clicks, cutoffs
from capse.search.logs.search_log import SearchLog

ROWS = ("document", "position", "clicked", "clicked_at", "satisfied")


def lists_of(lengths, relevant):
    """A log whose lists have these lengths and one relevant document each, at these positions."""
    return SearchLog.from_records(
        {
            "time": number,
            "user": f"u{number % 3}",
            "query": "q",
            "results": [f"d{number}-{place}" for place in range(1, length + 1)],
            "clicks": [f"d{number}-{position}"],
            "split": "test",
        }
        for number, (length, position) in enumerate(zip(lengths, relevant, strict=True))
    )


def judged(log):
    return JudgedLists(shuffled(log, 1), log.judged("test"), cutoffs(log))


def test_a_shuffle_moves_whole_rows_within_their_list():
    log = lists_of([10] * 50, [3] * 50)
    found = shuffled(log, 7)
    for impression in range(50):
        rows = slice(log.offsets[impression], log.offsets[impression + 1])
        before = set(zip(*(getattr(log, name)[rows].tolist() for name in ROWS), strict=True))
        assert set(zip(*(getattr(found, name)[rows].tolist() for name in ROWS), strict=True)) == before
    first = found.position[found.offsets[:-1]]
    assert 0.02 < (first == 1).mean() < 0.3
    assert (shuffled(log, 7).document == found.document).all()
    assert (shuffled(log, 8).document != found.document).any()


def test_clicks_of_one_moment_come_in_the_order_of_their_positions():
    log = SearchLog.from_records(
        {"time": 5, "user": "u", "query": "q", "results": list("abcdef"), "clicks": list("bdef")} for _ in range(3)
    )
    for seed in range(5):
        view = shuffled(log, seed)
        expected = [log.document[row] for row in Clicks.of(log).rows]
        assert [view.document[row] for row in Clicks.of(view).rows] == expected


def test_earlier_clicks_are_the_users_own():
    log = lists_of([3] * 7, [1] * 7)
    assert judged(log).earlier_clicks.tolist() == [0, 0, 0, 1, 1, 1, 2]


def test_longer_than_a_page():
    lengths, last = [10, 8, 11, 12, 14], [1, 4, 11, 12, 14]
    warning = judged(lists_of(lengths, last)).longer_than_a_page()
    before = np.mean(1 / np.array(last, float))
    after = np.mean([1, 1 / 4, 1, 1, 1])
    assert warning.startswith("in all 3 lists of more than 10 results the relevant document is the last")
    assert f"from {before:.4f} to {after:.4f}" in warning


def test_nothing_to_say_of_other_long_lists():
    assert judged(lists_of([11, 12, 14], [11, 12, 13])).longer_than_a_page() == ""
    assert judged(lists_of([10, 11, 12], [10, 11, 12])).longer_than_a_page() == ""  # two prove nothing
    assert judged(lists_of([10, 10, 10], [10, 10, 10])).longer_than_a_page() == ""
