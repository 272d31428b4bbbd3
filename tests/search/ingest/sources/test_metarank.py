"""Metarank's events, in the form that its documentation gives."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from capse.search.ingest import ingest
from capse.search.ingest.sources import detect, metarank
from capse.search.logs.search_log import SearchLog

ITEM = {
    "event": "item",
    "id": "e1",
    "timestamp": "1599391467000",
    "item": "item1",
    "fields": [
        {"name": "title", "value": "You favourite cat"},
        {"name": "color", "value": ["white", "black"]},
        {"name": "is_cute", "value": True},
        {"name": "price", "value": 12.5},
    ],
}
USER = {"event": "user", "id": "e2", "timestamp": "1599391467000", "user": "user1", "fields": []}
RANKING = {
    "event": "ranking",
    "id": "r1",
    "timestamp": "1599391467000",
    "user": "user1",
    "session": "session1",
    "fields": [{"name": "query", "value": "cat"}, {"name": "source", "value": "search"}],
    "items": [{"id": "item3", "relevancy": 2.0}, {"id": "item1", "relevancy": 1.0}, {"id": "item2"}],
}
CLICK = {
    "event": "interaction",
    "id": "i1",
    "ranking": "r1",
    "timestamp": 1599391477500,
    "user": "user1",
    "session": "session1",
    "type": "click",
    "item": "item1",
}
PURCHASE = CLICK | {"id": "i2", "type": "purchase"}


def write(path: Path, *events: Mapping[str, Any] | str) -> Path:
    lines = "".join((event if isinstance(event, str) else json.dumps(event)) + "\n" for event in events)
    path.write_bytes(gzip.compress(lines.encode()) if path.suffix == ".gz" else lines.encode())
    return path


@pytest.mark.parametrize("name", ["events.jsonl", "events.jsonl.gz", "events.json"])
def test_the_documented_events_become_a_log(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, ITEM, USER, RANKING, CLICK, PURCHASE)
    assert detect([path]) == "metarank"
    report = ingest(path, tmp_path / "log")
    log = SearchLog.load(tmp_path / "log")
    assert (log.users, log.sessions, log.queries) == (["user1"], ["session1"], ["cat"])
    assert log.time.tolist() == [1_599_391_467_000_000]
    assert [log.documents.ids[number] for number in log.document] == ["item3", "item1", "item2"]
    assert log.clicked.tolist() == [False, True, False]
    assert log.clicked_at[1] == 1_599_391_477_500_000
    item = log.documents.ids.index("item1")
    assert (log.documents.titles[item], log.documents.texts[item]) == ("You favourite cat", "white black")
    assert len(log.actions) == 1
    assert report.quarantined == {}


def test_times_may_be_iso_8601_and_numbers_are_always_milliseconds(tmp_path: Path, staged: Callable) -> None:
    events = [RANKING | {"id": f"r{n}", "timestamp": t} for n, t in enumerate(["2022-06-22T11:21:39Z", 5000, "5000"])]
    found = staged(metarank.stage, [write(tmp_path / "e.jsonl", *events)])
    times = {row["impression"]: row["time"] for row in found.results}
    assert times == {"r0": 1_655_896_899_000_000, "r1": 5_000_000, "r2": 5_000_000}


def test_fields_of_items_users_rankings_and_results(tmp_path: Path, staged: Callable) -> None:
    user = USER | {"fields": [{"name": "age", "value": 30}]}
    later = user | {"timestamp": "1599391499000", "fields": [{"name": "age", "value": 31}]}
    found = staged(metarank.stage, [write(tmp_path / "e.jsonl", ITEM, later, user, RANKING)])
    said = [(row["scope"], row["impression"], row["document"], json.loads(row["fields"])) for row in found.fields]
    item = {"title": "You favourite cat", "color": ["white", "black"], "is_cute": True, "price": 12.5}
    assert ("item", None, "item1", item) in said
    assert ("user", "r1", None, {"age": 30}) in said, "what was known by then"
    assert ("request", "r1", None, {"query": "cat", "source": "search"}) in said
    assert ("result", "r1", "item3", {"relevancy": 2.0}) in said


def test_a_later_event_replaces_the_fields_that_it_names(tmp_path: Path, staged: Callable) -> None:
    newer = ITEM | {"timestamp": "1599391468000", "fields": [{"name": "title", "value": "A dog"}]}
    for order in ([ITEM, newer], [newer, ITEM]):
        found = staged(metarank.stage, [write(tmp_path / "e.jsonl", *order)])
        assert [(row["title"], row["text"]) for row in found.documents] == [("A dog", "white black")]


def test_the_field_of_the_query_and_the_clicks_can_be_chosen(tmp_path: Path, staged: Callable) -> None:
    path = write(tmp_path / "e.jsonl", RANKING, CLICK, PURCHASE)
    found = staged(metarank.stage, [path], query_field="source", click_types=("purchase",))
    assert {row["query"] for row in found.results} == {"search"}
    assert [row["event"] for row in found.clicks] == ["i2"]


def test_a_ranking_without_a_user_is_its_sessions(tmp_path: Path, staged: Callable) -> None:
    ranking = {key: value for key, value in RANKING.items() if key not in ("user", "fields")}
    found = staged(metarank.stage, [write(tmp_path / "e.jsonl", ranking)])
    assert {(row["user"], row["query"]) for row in found.results} == {("session1", None)}
    assert any("1 of 1 rankings name no user" in note for note in found.notes)
    assert any("no field 'query'" in note for note in found.notes)


def test_a_click_outside_of_a_ranking_says_what_its_user_likes(tmp_path: Path) -> None:
    alone = {key: value for key, value in CLICK.items() if key != "ranking"}
    report = ingest(write(tmp_path / "e.jsonl", RANKING, alone), tmp_path / "log")
    assert report.quarantined == {}
    log = SearchLog.load(tmp_path / "log")
    assert (len(log.actions), log.clicked.sum()) == (1, 0)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ("{oops", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1, 2]", "not an event"),
        ({"event": "dream"}, "not an event"),
        ({"event": ["item"]}, "not an event"),
        (RANKING | {"timestamp": "soon"}, "an unreadable time"),
        (RANKING | {"timestamp": 10**25}, "an unreadable time"),
        (RANKING | {"timestamp": "9" * 30}, "an unreadable time"),
        (RANKING | {"items": []}, "a ranking without items"),
        (RANKING | {"items": ["item1"]}, "items that are not objects with an id"),
        (RANKING | {"fields": {"query": "cat"}}, "fields that are not a list"),
        (RANKING | {"user": {"id": 1}}, "user is not a text"),
        (RANKING | {"user": "\ud800"}, "a text that is not Unicode"),
        ({**ITEM, "item": None}, "an item without an id"),
        (CLICK | {"item": True}, "item is not a text"),
    ],
)
def test_a_broken_event_is_rejected(
    tmp_path: Path, staged: Callable, event: Mapping[str, Any] | str, reason: str
) -> None:
    found = staged(metarank.stage, [write(tmp_path / "e.jsonl", RANKING, event)])
    assert [(row["row"], row["reason"].startswith(reason)) for row in found.rejects] == [(2, True)]
    assert len(found.results) == 3
