"""JSON lines: the forms that impressions, clicks and documents may have, and what is rejected."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from capse.errors import DataError
from capse.search.ingest.sources import detect, jsonl

GOOD = {"impression": "i", "time": 1_700_000_000, "user": "ada", "query": "q", "results": ["a", "b"]}


@pytest.fixture
def write(tmp_path):
    def write(*lines, name="log.jsonl"):
        texts = (line if isinstance(line, (str, bytes)) else json.dumps(line) for line in lines)
        content = b"\n".join(text.encode() if isinstance(text, str) else text for text in texts)
        opener: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(Path(name).suffix, open)
        with opener(tmp_path / name, "wb") as file:
            file.write(content)
        return tmp_path / name

    return write


@pytest.mark.parametrize("name", ["log.jsonl", "log.ndjson", "log.jsonl.gz", "log.jsonl.bz2", "odd-name"])
def test_an_impression(write, staged, name):
    clicks = ["a", {"doc": "b", "timestamp": "2023-11-14T22:13:21Z", "dwell": 5, "event": 7}]
    path = write({**GOOD, "clicks": clicks, "session": "s", "split": "dev"}, "", name=name)
    assert detect([path]) == "jsonl"
    found = staged(jsonl.stage, [path])
    head = {"impression": "i", "time": 1_700_000_000_000_000, "user": "ada", "session": "s", "query": "q"}
    assert found.results == [
        {**head, "position": position, "document": document, "split": "dev"}
        for position, document in ((1, "a"), (2, "b"))
    ]
    assert found.clicks == [
        {"impression": "i", "document": "a", "time": None, "dwell": None, "event": None},
        {"impression": "i", "document": "b", "time": 1_700_000_001_000_000, "dwell": 5.0, "event": "7"},
    ]
    assert not found.rejects


def test_results_may_describe_their_documents(write, staged):
    described = {"id": "a", "title": "A", "text": "all of it", "terms": {"all": 2}}
    plain = {"document": "b"}
    line = {**GOOD, "results": [described, plain]}
    found = staged(jsonl.stage, [write(line, {**line, "impression": "j"})])
    assert found.documents == [{"document": "a", "title": "A", "text": "all of it", "terms": '{"all": 2}'}]
    assert [row["document"] for row in found.results] == ["a", "b"] * 2


def test_documents_beside_the_log_come_with_it(write, staged):
    write({"doc": "a", "title": "A"}, name="documents.jsonl.gz")
    write({"doc": "b", "title": "not this log's"}, name="other.jsonl")
    found = staged(jsonl.stage, [write(GOOD)])
    assert [row["document"] for row in found.documents] == ["a"]
    found = staged(jsonl.stage, [write(GOOD).parent])
    assert sorted(row["document"] for row in found.documents) == ["a", "b"]


def test_an_impression_without_an_id_is_known_by_its_line(write, staged):
    line = {key: value for key, value in GOOD.items() if key != "impression"}
    found = staged(jsonl.stage, [write(line, {**line, "clicks": ["a"]}, {**line, "user": "bob"})])
    first, second, third = (found.results[place]["impression"] for place in (0, 2, 4))
    assert first == second != third
    assert found.clicks[0]["impression"] == first


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{oops", "not JSON"),
        (b'{"results": ["\xff"]}', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "not an object"),
        ({"user": "ada"}, "neither an impression nor a document"),
        ({**GOOD, "results": "a b"}, "results or clicks that are not a list"),
        ({**GOOD, "clicks": {"a": 1}}, "results or clicks that are not a list"),
        ({**GOOD, "results": []}, "no results"),
        ({**GOOD, "time": "yesterday"}, "an unreadable time"),
        ({**GOOD, "time": [1]}, "an unreadable time"),
        ({**GOOD, "user": {"name": "ada"}}, "a list, an object, true or false where a text should be"),
        ({**GOOD, "query": "\ud800"}, "a text that is not Unicode"),
        ({"doc": "a", "terms": {"word": -1}}, "terms that are not word counts"),
        ({"doc": "a", "terms": {"word": 2**31}}, "terms that are not word counts"),
        ({"doc": "a", "terms": ["word"]}, "terms that are not word counts"),
    ],
)
def test_a_line_that_cannot_be_read_is_rejected_whole(write, staged, line, reason):
    found = staged(jsonl.stage, [write(GOOD, line, {**GOOD, "impression": "k"})])
    (reject,) = found.rejects
    assert (reject["source"], reject["row"], reject["reason"]) == ("log.jsonl", 2, reason)
    assert reject["raw"] == (line if isinstance(line, str) else reject["raw"]).strip()
    assert {row["impression"] for row in found.results} == {"i", "k"}


@pytest.mark.parametrize("dwell", ["long", True, [30], 10**400, float("inf")])
def test_a_click_that_cannot_be_read_leaves_its_list_alone(write, staged, dwell):
    broken = {"doc": "b", "dwell": dwell}
    found = staged(jsonl.stage, [write({**GOOD, "clicks": [broken, "a"]})])
    (reject,) = found.rejects
    assert (reject["reason"], json.loads(reject["raw"])) == ("click with an unreadable dwell", broken)
    assert [row["document"] for row in found.clicks] == ["a"]
    assert len(found.results) == 2


def test_a_damaged_archive_is_one_line(write, tmp_path, staged):
    path = write(*[{**GOOD, "impression": str(n)} for n in range(2_000)], name="log.jsonl.gz")
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(DataError, match=r"log.jsonl.gz: cannot be read .*: check the file, or copy it again") as caught:
        staged(jsonl.stage, [path])
    assert "\n" not in str(caught.value)


def test_what_no_format_knows_is_an_error(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(DataError, match="no log in a known format: name it with --format"):
        detect([tmp_path])
