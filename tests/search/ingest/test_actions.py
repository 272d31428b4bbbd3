"""Events that are no clicks: every one is kept, a copy, or set aside with its reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capse.search.logs.actions import KINDS
from capse.search.logs.forgetting import forget_in_log
from capse.search.logs.search_log import SearchLog

TIME = 1_700_000_000
LISTS: list[dict[str, Any]] = [
    {
        "impression": f"i{number}",
        "time": TIME + 100 * number,
        "user": ("ada", "bob")[number % 2],
        "query": "q",
        "results": ["a", "b", "c"],
        "clicks": ["b"],
    }
    for number in range(4)
]


def event(kind: str, document: str = "b", second: int = 50, **more: Any) -> dict[str, Any]:
    return {"event": kind, "document": document, "time": TIME + second, **more}


def test_events_grade_the_list_that_they_came_from(ingested: Callable) -> None:
    first = LISTS[0] | {"events": [event("cart"), event("purchase", second=60), event("dislike", "c")]}
    done = ingested([first, *LISTS[1:], event("like", "a", 900, user="ada"), event("view", second=900, user="eve")])
    log = done.log
    kinds = [KINDS[number] for number in log.actions.kind]
    assert list(zip(kinds, log.actions.row.tolist(), strict=True)) == [
        ("cart", 1),
        ("dislike", 2),
        ("purchase", 1),
        ("like", -1),
        ("view", -1),
    ]
    assert [log.users[number] if number >= 0 else None for number in log.actions.user] == ["ada"] * 4 + [None]
    assert done.report.counts["actions"] == {"staged": 5, "kept": 5, "collapsed": 0, "quarantined": 0}
    assert any("2 of 5 events name no list" in note for note in done.report.notes)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (event("wish", impression="i0"), "unknown kind of event"),
        (event("purchase", impression="i9"), "event for an unknown impression"),
        (event("purchase", "z", impression="i0"), "event on a document that was not shown"),
        (event("cart", second=-5, impression="i0"), "event before its impression"),
        (event("cart", second=90 * 86_400, impression="i0"), "event long after its impression"),
        (event("cart", impression="i0", user="bob"), "event of another user than its impression's"),
        (event("cart"), "event without a user"),
        (event("cart", "z", user="ada"), "event on a document that is not known"),
        (event("cart", user="ada") | {"time": None}, "event without a time"),
        ({"event": "cart", "user": "ada", "time": TIME}, "event without a document"),
        (event("cart", user="ada", second=-(12 * 10**8)), "time before 1990-01-01"),
    ],
)
def test_what_makes_no_sense_is_set_aside(ingested: Callable, broken: dict[str, Any], reason: str) -> None:
    done = ingested([*LISTS, event("cart", impression="i0"), broken, broken])
    assert done.report.quarantined == {reason: 1}
    assert done.report.counts["actions"] == {"staged": 3, "kept": 1, "collapsed": 1, "quarantined": 1}
    (row,) = done.quarantine
    assert (row["reason"], row["table"], row["kind"]) == (reason, "actions", broken["event"])


def test_clicks_without_lists_are_kept_for_profiles(ingested: Callable) -> None:
    done = ingested([*LISTS, event("click", user="ada")])
    assert [KINDS[number] for number in done.log.actions.kind] == ["click"]
    assert done.log.clicked.sum() == 4


def test_a_forgotten_user_takes_events_along(ingested: Callable, tmp_path: Path) -> None:
    done = ingested([*LISTS, event("cart", user="ada"), event("cart", user="bob"), event("like", user="eve")])
    forget_in_log(done.folder, ["bob", "eve"])
    assert len(SearchLog.load(done.folder).actions) == 1
    assert "eve" not in json.dumps(done.table("actions"))
