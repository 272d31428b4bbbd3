"""Duplicates, clocks that jump, documents nobody knows, lists without end: stated, quarantined, nothing lost."""

from __future__ import annotations

import time

import pytest

DAY = 1_700_006_400  # in seconds
TOMORROW_AND_MORE = int(time.time()) + 3 * 86_400


def impression(label, results=("a", "b"), at=0, **more):
    return {"impression": label, "time": DAY + at, "user": "ada", "query": "q", "results": list(results), **more}


def click(document, at=1, **more):
    return {"document": document, "time": DAY + at, **more}


# Each case: lines of a log; what of them is quarantined, by reason; how many rows are copies.
CASES = {
    "the same impression twice": ([impression("twice", clicks=[click("a", dwell=40)])] * 2, {}, 3),
    "one id for two impressions": (
        [impression("shared"), impression("shared", at=9)],
        {"impression with the id of another": 2},
        0,
    ),
    "a document twice in a list": ([impression("again", "aba")], {"document already in the list": 1}, 0),
    "a clock at 1970": (
        [{**impression("old"), "time": 86_400}],
        {"time before 1990-01-01": 2},
        0,
    ),
    "a clock ahead": ([{**impression("ahead"), "time": TOMORROW_AND_MORE}], {"time in the future": 2}, 0),
    "no time at all": ([{**impression("never"), "time": None}], {"missing time": 2}, 0),
    "nobody": ([impression("nobody", user=None), impression("empty", user="")], {"missing user": 4}, 0),
    "a result without a document": ([impression("hole", ["a", None, ""])], {"missing document": 2}, 0),
    "a click before its impression": (
        [impression("early", at=100, clicks=[click("a", 99), click("b", 100)])],
        {"click before its impression": 1},
        0,
    ),
    "a click days after its impression": (
        [impression("late", clicks=[click("a", 86_400), click("b", 86_401)])],
        {"click long after its impression": 1},
        0,
    ),
    "a click at a time nobody believes": (
        [impression("odd", clicks=[{"document": "a", "time": 5}, {"document": "b", "time": TOMORROW_AND_MORE}])],
        {"time before 1990-01-01": 1, "time in the future": 1},
        0,
    ),
    "a click on a document that was not shown": (
        [impression("elsewhere", clicks=[click("x")])],
        {"click on a document that was not shown": 1},
        0,
    ),
    "a click on a result that is quarantined": (
        [{**impression("gone", clicks=[click("a", 86_401)]), "time": 86_400}],
        {"time before 1990-01-01": 2, "click on a quarantined result": 1},
        0,
    ),
    "a click on nothing": ([impression("nothing", clicks=[click(None)])], {"click without a document": 1}, 0),
    "a negative dwell": ([impression("back", clicks=[click("a", dwell=-0.5)])], {"negative dwell": 1}, 0),
    "one id for two clicks": (
        [impression("event", clicks=[click("a", event="e1"), click("b", event="e1"), click("a", event="e1")])],
        {"event id of another click": 1},
        1,
    ),
    "a document described in two ways": (
        [
            impression("told", [{"document": "n1", "title": "short"}, {"document": "n2", "title": "x"}]),
            {"document": "n1", "title": "the longer one"},
        ],
        {"document described otherwise": 1},
        0,
    ),
    "a document without an id": ([{"id": "", "title": "lost"}], {"document without an id": 1}, 0),
    "ten thousand results": (
        [impression("long", [f"r{n}" for n in range(10_000)], clicks=[click("r999"), click("r1000")])],
        {"beyond the longest list": 9_000, "click on a quarantined result": 1},
        0,
    ),
}


@pytest.fixture(scope="module")
def found(ingested):
    return ingested([record for records, _, _ in CASES.values() for record in records])


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_stands_in_the_quarantine_with_its_reason(found, case):
    records, expected, _ = CASES[case]
    labels = {record.get("impression") for record in records} - {None}
    documents = {record.get("document", record.get("id")) for record in records if "results" not in record}
    reasons: dict[str, int] = {}
    for line in found.quarantine:
        mine = line["impression"] in labels if "impression" in line else line.get("document", "") in documents
        if mine:
            reasons[line["reason"]] = reasons.get(line["reason"], 0) + 1
    assert reasons == expected


def test_the_report_counts_what_the_quarantine_holds(found):
    expected: dict[str, int] = {}
    for _, reasons, _ in CASES.values():
        for reason, count in reasons.items():
            expected[reason] = expected.get(reason, 0) + count
    assert found.report.quarantined == dict(sorted(expected.items()))
    assert len(found.quarantine) == sum(expected.values())


def test_copies_are_collapsed_and_counted(found):
    copies = sum(found.report.counts[table]["collapsed"] for table in ("results", "clicks", "documents"))
    assert copies == sum(copies for _, _, copies in CASES.values())
    row = found.result("twice", "a")
    assert (row["position"], row["dwell"], row["satisfied"]) == (1, 40.0, True)


def test_a_quarantined_line_tells_all_that_its_row_told(found):
    (line,) = [line for line in found.quarantine if line["reason"] == "event id of another click"]
    assert line == {
        "reason": "event id of another click",
        "table": "clicks",
        "impression": "event",
        "document": "b",
        "time": DAY + 1,
        "event": "e1",
    }
    (line,) = [line for line in found.quarantine if line["reason"] == "document already in the list"]
    assert line["table"] == "results"
    assert (line["impression"], line["position"], line["document"], line["user"]) == ("again", 3, "a", "ada")


def test_what_is_left_of_the_longest_list_is_a_list(found):
    log = found.log
    (number,) = [n for n, row in enumerate(found.table("impressions")) if row["impression"] == "long"]
    assert log.lengths[number] == 1_000
    assert log.position[log.rows(log.of_split("train"))].max() <= 1_000
    assert found.result("long", "r999")["clicked"]


def test_of_two_impressions_with_one_id_the_earlier_is_kept(found):
    (row,) = [row for row in found.table("impressions") if row["impression"] == "shared"]
    assert row["time"].timestamp() == DAY


def test_of_two_descriptions_the_longer_is_kept(found):
    titles = {row["document"]: row["title"] for row in found.table("documents")}
    assert (titles["n1"], titles["n2"], titles["a"]) == ("the longer one", "x", "")


def test_documents_that_nobody_describes_are_kept_and_counted(found):
    """a, b, and the first thousand of the long list."""
    assert any(note.startswith("1,002 of the shown documents are not described") for note in found.report.notes)
    assert len(found.log.documents) == 1_004


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"max_results": 1}, "beyond the longest list"),
        ({"earliest": "2023-11-16"}, "time before 2023-11-16"),
        ({"latest": "2023-11-14"}, "time in the future"),
    ],
)
def test_what_counts_as_broken_can_be_set(ingested, settings, reason):
    """Of two lists the later has the later clock; one must stay, or there is no log."""
    records = [impression("early", at=-90_000), impression("late", at=90_000)]
    found = ingested(records, **settings)
    assert found.report.quarantined == {reason: 2}
