"""A log without some of its users."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from capse.errors import DataError
from capse.search.ingest import ingest
from capse.search.logs.forgetting import forget_in_log
from capse.search.logs.search_log import SearchLog
from capse.search.logs.simulation import Simulated


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory, world: Simulated) -> Callable[..., Path]:
    """The world's log as lines, with some that are broken."""

    def write(without: str | None = None) -> Path:
        folder = tmp_path_factory.mktemp("raw")
        world.write_jsonl(folder)
        file = folder / "log.jsonl"
        lines = file.read_text().splitlines()
        lines.insert(3, json.dumps({"user": world.log.users[0], "time": "never", "query": "q", "results": ["d1"]}))
        if without is not None:
            lines = [line for line in lines if f'"{without}"' not in line]
        file.write_text("\n".join(lines) + "\n")
        return folder

    return write


def same(first: SearchLog, second: SearchLog) -> None:
    for name in ("time", "offsets", "position", "clicked", "clicked_at", "satisfied"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), name)
    for log in (first, second):
        assert len(log) > 0
    assert [first.users[n] for n in first.user] == [second.users[n] for n in second.user]
    assert [first.documents.ids[n] for n in first.document] == [second.documents.ids[n] for n in second.document]


def test_it_is_as_if_the_user_had_never_been_there(raw: Callable[..., Path], world: Simulated, tmp_path: Path) -> None:
    """Against ingesting lines without the user; splits stay where they were."""
    gone = world.log.users[0]
    ingest(raw(), tmp_path / "log")
    before = SearchLog.load(tmp_path / "log")
    theirs = int((before.user == before.users.index(gone)).sum())
    assert gone in (tmp_path / "log" / "quarantine.jsonl").read_text()
    assert forget_in_log(tmp_path / "log", [gone, "nobody"]) == theirs > 0
    ingest(raw(without=gone), tmp_path / "expected")
    found = SearchLog.load(tmp_path / "log")
    same(found, SearchLog.load(tmp_path / "expected"))
    kept = before.user != before.users.index(gone)
    np.testing.assert_array_equal(found.split, before.split[kept])
    for file in (tmp_path / "log").glob("*"):
        assert gone.encode() not in file.read_bytes(), file
    assert forget_in_log(tmp_path / "log", [gone]) == 0


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not an ingested log"):
        forget_in_log(tmp_path, ["ada"])
