"""The scorer that sees the document alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from capse.search.evaluation.popularity import DocumentOnly
from capse.search.logs.history import count_before, cutoffs
from capse.search.logs.search_log import SearchLog

EVENTS = st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 3)), max_size=30)


@given(EVENTS, EVENTS)
def test_counting_by_the_definition(events, asked):
    keys, times = np.array(events, np.int64).reshape(-1, 2).T
    asked_keys, asked_times = np.array(asked, np.int64).reshape(-1, 2).T
    expected = [sum(key == k and time < t for key, time in events) for k, t in asked]
    assert count_before(keys, times, asked_keys, asked_times).tolist() == expected


def week(number):
    return number * 7 * 86_400


LOG = SearchLog.from_records(
    [
        {"time": week(0), "user": "ada", "query": "q", "results": ["once", "now", "never"], "clicks": ["once"]},
        {"time": week(1), "user": "ada", "query": "q", "results": ["once", "now", "never"], "clicks": ["once"]},
        {"time": week(90), "user": "bob", "query": "q", "results": ["once", "now", "never"], "clicks": ["now"]},
        {
            "time": week(91),
            "user": "bob",
            "query": "q",
            "results": ["never", "once", "now", "new"],
            "clicks": ["new"],
            "split": "test",
        },
        {
            "time": week(92),
            "user": "eve",
            "query": "q",
            "results": ["never", "once", "now", "new"],
            "clicks": ["new"],
            "split": "test",
        },
    ]
)


def by_hand(clicked, shown, clicked_lately, shown_lately, clicked_at_all, shown_at_all):
    share = (clicked + 3 * (clicked_at_all + 1) / (shown_at_all + 10)) / (shown + 3)
    return (clicked_lately + 3 * share) / (shown_lately + 3)


def test_recent_clicks_then_clicks_at_all():
    found = DocumentOnly().score(LOG, np.array([3]), cutoffs(LOG))
    counts = {"never": (0, 3, 0, 1), "once": (2, 3, 0, 1), "now": (1, 3, 1, 1), "new": (0, 0, 0, 0)}
    np.testing.assert_allclose(found, [by_hand(*numbers, 3, 9) for numbers in counts.values()], rtol=1e-12)
    never, once, now, new = found
    assert now > once > new > never


def test_history_is_before_the_cutoff():
    """Prequential history holds the first test impression at the second; frozen history holds none of the test."""
    prequential = DocumentOnly().score(LOG, np.array([4]), cutoffs(LOG))
    frozen = DocumentOnly().score(LOG, np.array([3, 4]), cutoffs(LOG, "frozen", "test"))
    assert prequential[3] == by_hand(1, 1, 1, 1, 4, 13)
    assert frozen[:4].tolist() == frozen[4:].tolist() == DocumentOnly().score(LOG, np.array([3]), cutoffs(LOG)).tolist()
