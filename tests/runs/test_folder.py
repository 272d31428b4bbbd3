"""A run folder: opening it, and its metrics, of which a kill may leave half a line."""

from __future__ import annotations

import json
import re

import pytest

from capse.errors import RunError, StorageError
from capse.runs.folder import RunFolder
from capse.runs.records import provenance


@pytest.fixture
def run(tmp_path):
    for epoch in (1, 2, 3):
        RunFolder(tmp_path).append_metrics({"epoch": epoch, "loss": 1 / epoch})
    return RunFolder(tmp_path)


def epochs(run):
    return [record["epoch"] for record in run.read_metrics()]


def test_metrics_come_back_in_order(run):
    assert run.read_metrics() == [{"epoch": epoch, "loss": 1 / epoch} for epoch in (1, 2, 3)]
    assert RunFolder(run.path / "none").read_metrics() == []


def test_a_last_line_cut_anywhere_is_left_out(run):
    whole = run.metrics.read_bytes()
    lines = whole.splitlines(keepends=True)
    for size in range(len(whole)):
        run.metrics.write_bytes(whole[:size])
        # A line is complete with its closing brace, line end or not.
        complete = sum(size >= len(b"".join(lines[: i + 1])) - 1 for i in range(3))
        assert epochs(run) == [1, 2, 3][:complete]


@pytest.mark.parametrize("tail", [b'{"epoch": 4, "lo', b"\x00\x00\x00", b"\xff\xfe", b""])
def test_keeping_metrics_forgets_later_epochs_and_half_lines(run, tail):
    with run.metrics.open("ab") as file:
        file.write(tail)
    run.keep_metrics_up_to(2)
    run.append_metrics({"epoch": 3, "loss": 0.0})
    assert epochs(run) == [1, 2, 3]
    assert run.metrics.read_text().count("\n") == 3
    run.keep_metrics_up_to(0)
    assert run.metrics.read_text() == ""


def test_leftovers_of_a_killed_run_are_removed_and_nothing_else(run):
    run.checkpoints.mkdir()
    kept = [run.checkpoints / "last.safetensors", run.path / ".hidden", run.path / "a.part"]
    parts = [run.checkpoints / ".last.safetensors.abc.part", run.path / ".model.safetensors.xyz.part"]
    for path in kept + parts:
        path.write_text("x")
    run.remove_leftovers()
    assert all(path.exists() for path in kept)
    assert not any(path.exists() for path in parts)


def test_metrics_that_cannot_be_written(tmp_path):
    with pytest.raises(StorageError, match=re.escape(f"cannot write {tmp_path / 'no' / 'metrics.jsonl'}")):
        RunFolder(tmp_path / "no").append_metrics({"epoch": 1})


def test_opening_says_what_is_missing(tmp_path):
    with pytest.raises(RunError, match="there is no run in"):
        RunFolder.open(tmp_path / "no")
    with pytest.raises(RunError, match=r"is not a run: it has no recipe\.yaml"):
        RunFolder.open(tmp_path)
    RunFolder(tmp_path).recipe.write_text("")
    with pytest.raises(RunError, match="is not finished: continue it with 'capse train --resume'"):
        RunFolder.open(tmp_path)
    RunFolder(tmp_path).model.write_text("")
    assert RunFolder.open(tmp_path).path == tmp_path


def test_provenance_is_json_and_says_where_a_figure_comes_from():
    record = json.loads(json.dumps(provenance()))
    assert set(record) == {"command", "commit", "date", "machine", "versions"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", record["date"])
    assert {"capse", "python", "torch", "numpy"} <= set(record["versions"])


def test_a_copy_of_the_tree_can_be_told_what_it_is_a_copy_of(monkeypatch):
    monkeypatch.setenv("CAPSE_COMMIT", "0123456789ab")
    assert provenance()["commit"] == "0123456789ab"
