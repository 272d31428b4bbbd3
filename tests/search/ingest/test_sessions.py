"""Sessions: the log's own, or cut where a user was silent. One log; each case has users of its own."""

from __future__ import annotations

import pytest

from tests.search.ingest.log_lines import click, impression

MINUTE = 60

CASES = {
    "it ends when the user is silent for longer than the gap": (
        [impression("1", 0, user="u1"), impression("2", 30 * MINUTE, user="u1"), impression("3", 3_601, user="u1")],
        {"1": "u1#1", "2": "u1#1", "3": "u1#2"},
    ),
    "a click breaks the silence": (
        [
            impression("4", 0, user="u2", clicks=[click("a", 25 * MINUTE)]),
            impression("5", 50 * MINUTE, user="u2"),
        ],
        {"4": "u2#1", "5": "u2#1"},
    ),
    "a click that is quarantined does not": (
        [
            impression("6", 0, user="u3", clicks=[click("never shown", 25 * MINUTE)]),
            impression("7", 50 * MINUTE, user="u3"),
        ],
        {"6": "u3#1", "7": "u3#2"},
    ),
    "the silence begins with the latest event, not with the last impression": (
        [
            impression("8", 0, user="u4", clicks=[click("a", 29 * MINUTE)]),
            impression("9", 1 * MINUTE, user="u4"),
            impression("10", 55 * MINUTE, user="u4"),
        ],
        {"8": "u4#1", "9": "u4#1", "10": "u4#1"},
    ),
    "users do not share it": (
        [impression("11", 0, user="u5"), impression("12", 1, user="u6"), impression("13", 2, user="u5")],
        {"11": "u5#1", "12": "u6#1", "13": "u5#1"},
    ),
    "the log's own is kept however long the silence": (
        [impression("14", 0, user="u7", session="s"), impression("15", 90_000, user="u7", session="s")],
        {"14": "s", "15": "s"},
    ),
    "a name that two users share is a session of each": (
        [impression("16", 0, user="u8", session="t"), impression("17", 1, user="u9", session="t")],
        {"16": "u8/t", "17": "u9/t"},
    ),
    "named and unnamed ones stand side by side": (
        [
            impression("18", 0, user="u10", session="v"),
            impression("19", 1, user="u10"),
            impression("20", 2, user="u10", session=""),
        ],
        {"18": "v", "19": "u10#1", "20": "u10#1"},
    ),
}


@pytest.fixture(scope="module")
def found(ingested):
    return ingested([record for records, _ in CASES.values() for record in records])


@pytest.mark.parametrize("case", CASES)
def test_a_session(found, case):
    _, expected = CASES[case]
    assert {label: found.sessions[label] for label in expected} == expected


def test_the_notes_tell_how_sessions_came_about(found):
    notes = " ".join(found.report.notes)
    assert "15 of 20 impressions name no session: sessions are cut after 30 minutes of a user's silence" in notes
    assert "1 of the log's own sessions last longer than a day: did a clock jump?" in notes


def test_the_gap_is_a_setting(ingested):
    found = ingested([impression("1", 0), impression("2", 61), impression("3", 120)], gap_seconds=60)
    assert found.sessions == {"1": "ada#1", "2": "ada#2", "3": "ada#2"}
