"""Satisfied clicks: a dwell of 30 s or more, or the last click of the session; and what can be set otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capse.search.satisfaction import Satisfaction
from tests.search.ingest.log_lines import click, impression

# One log in which every case is a user with sessions of her own: the records, and the satisfied clicks among theirs.
CASES = {
    "the paper's rule": (
        [
            impression("1", 0, user="u1", clicks=[click("a", 1, 29.9), click("b", 40, 30.0)]),
            impression("2", 100, user="u1", clicks=[click("a", 101, 5.0), click("c", 110, 2.0)]),  # c: the last
            impression("3", 9_000, user="u1", clicks=[click("a", 9_001, 1.0)]),  # alone in its session
        ],
        {("1", "b"), ("2", "c"), ("3", "a")},
    ),
    "the last click is the last in time, not in the file": (
        [impression("4", 0, user="u2", clicks=[click("b", 50, 3.0), click("a", 20, 3.0)])],
        {("4", "b")},
    ),
    "clicks at the same last moment are all last": (
        [impression("5", 0, user="u3", clicks=[click("a", 5, 1.0), click("b", 9, 1.0), click("c", 9, 1.0)])],
        {("5", "b"), ("5", "c")},
    ),
    "a document clicked twice counts by its longest dwell": (
        [impression("6", 0, user="u4", clicks=[click("a", 50, 2.0), click("a", 5, 31.0), click("b", 90, 1.0)])],
        {("6", "a"), ("6", "b")},
    ),
    "a click whose dwell is not known counts, whatever comes next": (
        [
            impression("7", 0, user="u5", clicks=[click("a", 0), click("b", 11)]),  # a: at the moment of its list
            impression("8", 51, user="u5", clicks=[click("a", 52), click("b", 53, 2.0), click("c", 54)]),
        ],
        {("7", "a"), ("7", "b"), ("8", "a"), ("8", "c")},
    ),
    "a dwell that is given stands, whatever comes next": (
        [impression("10", 0, user="u6", clicks=[click("a", 1, 3.0), click("b", 100)])],
        {("10", "b")},
    ),
    "a quarantined click is nobody's last": (
        [impression("11", 0, user="u7", clicks=[click("a", 1, 3.0), click("never shown", 100, 99.0)])],
        {("11", "a")},
    ),
}


@pytest.fixture(scope="module")
def found(ingested):
    return ingested([record for records, _ in CASES.values() for record in records])


@pytest.mark.parametrize("case", CASES)
def test_satisfied_clicks(found, case):
    records, expected = CASES[case]
    labels = {record["impression"] for record in records}
    assert {pair for pair in found.satisfied if pair[0] in labels} == expected


def test_a_clicked_result_has_its_first_time_and_its_longest_dwell(found):
    row = found.result("6", "a")
    assert (row["clicked"], row["clicked_at"].timestamp() % 86_400, row["dwell"]) == (True, 5, 31.0)
    row = found.result("6", "c")
    assert (row["clicked"], row["clicked_at"], row["dwell"], row["satisfied"]) == (False, None, None, False)


def test_a_missing_dwell_can_be_inferred_from_the_next_event_of_the_session(ingested):
    records = [
        impression("1", 0, clicks=[click("a", 1), click("b", 11)]),  # 10 s to b, 40 s to the next list
        impression("2", 51, clicks=[click("a", 51), click("b", 51), click("c", 53)]),  # nothing follows at 51 but 51
        impression("3", 9_000),  # in another session, so no event that ends the last click
    ]
    found = ingested(records, infer_dwell=True)
    dwells = {label + document: found.result(label, document)["dwell"] for label in "12" for document in "ab"}
    assert dwells == {"1a": 10.0, "1b": 40.0, "2a": None, "2b": 2.0}
    assert found.satisfied == {("1", "b"), ("2", "a"), ("2", "c")}
    assert "a missing dwell is the time to the next event of the session" in " ".join(found.report.notes)


def test_the_notes_tell_the_rule(found):
    notes = " ".join(found.report.notes)
    satisfied = sum(len(expected) for _, expected in CASES.values())
    assert f"{Satisfaction()}: {satisfied} of 20 clicked results are, and the dwell of 5 is not known" in notes


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({"satisfied_dwell": 10}, {"long", "short", "last"}), ({"satisfied_last": False}, {"long"})],
)
def test_the_rule_can_be_set(ingested, settings, expected):
    clicks = [click("long", 1, 30.0), click("short", 40, 10.0), click("last", 60, 0.0)]
    found = ingested([impression("1", 0, ["long", "short", "last", "none"], clicks=clicks)], **settings)
    assert {document for _, document in found.satisfied} == expected


@pytest.mark.parametrize(
    ("settings", "expected", "note"),
    [
        ({}, {("1", "a"), ("1", "b"), ("2", "c")}, "or one whose dwell is not known: 3 of 3 clicked results are"),
        ({"without_dwell": "last"}, {("2", "c")}, "or the last of its session: 1 of 3 clicked results are"),
    ],
)
def test_a_log_without_dwell_and_times(ingested, settings, expected, note):
    records = [impression("1", 0, clicks=["a", "b"]), impression("2", 60, clicks=["c"])]
    found = ingested(records, **settings)
    assert found.satisfied == expected
    assert any(note in line for line in found.report.notes)


@given(
    dwell=st.none() | st.sampled_from([0.0, 29.9, 30.0, 90.0]),
    last=st.booleans(),
    rule=st.builds(Satisfaction, st.just(30.0), st.booleans(), st.sampled_from(["all", "last"])),
)
def test_the_rule_in_words(dwell, last, rule):
    """By cases, from its docstring."""
    if dwell is None:
        assert rule.counts(None, last=last) == (rule.without_dwell == "all" or last)
    else:
        assert rule.counts(dwell, last=last) == (dwell >= 30 or (last and rule.last))
