"""User Behavior Insights: lists from hits or from impressions, and every record accounted for."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from capse.search.ingest import IngestReport, ingest
from capse.search.ingest.sources import detect
from capse.search.logs.actions import KINDS
from capse.search.logs.search_log import SearchLog

TIME = "2024-12-10T00:01:29.378Z"
DATA = Path(os.environ.get("CAPSE_DATA", ".")) / "ubi"


def query(label: str, hits: list[str] | None = None, **more: Any) -> dict[str, Any]:
    found = {} if hits is None else {"query_response_hit_ids": hits}
    return {"query_id": label, "client_id": "c1", "user_query": "lamp", "timestamp": TIME, **found, **more}


def event(kind: str, label: str, document: str, ordinal: int | None = None, **more: Any) -> dict[str, Any]:
    position = {} if ordinal is None else {"position": {"ordinal": ordinal}}
    about = {"object": {"object_id": document, "object_id_field": "asin"}, **position}
    base = {"action_name": kind, "query_id": label, "client_id": "c1", "session_id": "s1", "user_query": "lamp"}
    return {**base, "timestamp": "2024-12-10T00:02:00Z", "event_attributes": about, **more}


def read(folder: Path, *records: Mapping[str, Any] | str, bulk: bool = False) -> tuple[IngestReport, SearchLog]:
    lines = [one if isinstance(one, str) else json.dumps(one) for one in records]
    if bulk:
        lines = [part for line in lines for part in (json.dumps({"index": {"_index": "ubi_queries"}}), line)]
    (folder / "ubi.ndjson").write_text("".join(line + "\n" for line in lines))
    assert detect([folder / "ubi.ndjson"]) == "ubi"
    report = ingest(folder / "ubi.ndjson", folder / "log")
    return report, SearchLog.load(folder / "log")


@pytest.mark.parametrize("bulk", [True, False])
def test_lists_come_from_hits_or_from_impressions(tmp_path: Path, bulk: bool) -> None:
    shown = [event("impression", "q2", document, place) for place, document in enumerate("xyz")]
    done = [event("click", "q1", "b", 1), event("add_to_cart", "q2", "y", 1), event("declined_product", "q2", "z", 2)]
    report, log = read(
        tmp_path, query("q1", ["a", "b"]), query("q2", timestamp=1733788889378), *shown, *done, bulk=bulk
    )
    assert [log.documents.ids[number] for number in log.document] == ["a", "b", "x", "y", "z"]
    assert log.position.tolist() == [1, 2, 1, 2, 3]
    assert log.clicked.tolist() == [False, True, False, False, False]
    assert [(KINDS[kind], row) for kind, row in zip(log.actions.kind, log.actions.row, strict=True)] == [
        ("cart", 3),
        ("dislike", 4),
    ]
    assert (log.users, log.sessions, log.queries) == (["c1"], ["s1"], ["lamp"])
    assert report.quarantined == {}
    assert "8 UBI records: 2 queries, 3 impressions, 1 clicks, 2 other events" in report.notes


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("{oops", "not JSON"),
        (query("q1", ["c"]), "query with the id of another"),
        (query("", ["c"]), "a query without an id"),
        (query("q9", ["c"], timestamp="soon"), "an unreadable time"),
        (query("q9") | {"query_response_hit_ids": "c"}, "hits that are not a list of ids"),
        (event("click", "q1", "a") | {"event_attributes": None}, "an event without an object_id"),
        (event("click", "q7", "a"), "click for an unknown impression"),
        (event("purchase", "q7", "a"), "event for an unknown impression"),
    ],
)
def test_what_cannot_be_used_is_set_aside(tmp_path: Path, broken: Mapping[str, Any] | str, reason: str) -> None:
    report, _ = read(tmp_path, query("q1", ["a", "b"]), event("click", "q1", "b"), broken)
    assert report.quarantined == {reason: 1}


def test_what_is_done_with_the_page_is_left_out_and_said(tmp_path: Path) -> None:
    report, _ = read(tmp_path, query("q1", ["a"]), event("brand_filter", "q1", "a"), event("page_exit", "q1", "a"))
    assert any("1 brand_filter, 1 page_exit" in note for note in report.notes)


@pytest.mark.skipif(not DATA.is_dir(), reason="needs CAPSE_DATA")
def test_every_record_of_the_public_sample_is_accounted_for(tmp_path: Path) -> None:
    report = ingest(DATA, tmp_path / "log")
    found = "284 queries, 1,999 impressions, 298 clicks, 189 rejected, 256 other events, 895 left out"
    assert f"3,921 UBI records: {found}" in report.notes
    assert 284 + 1_999 + 298 + 189 + 256 + 895 == 3_921
    for name in ("results", "clicks", "actions"):
        counts = report.counts[name]
        assert counts["staged"] == counts["kept"] + counts["collapsed"] + counts["quarantined"]
    assert (report.counts["clicks"]["staged"], report.counts["actions"]["staged"]) == (298, 256)
    assert report.counts["impressions"] == 264
