"""What ingesting leaves on disk: a whole folder, or nothing; settings and times that make no sense are refused."""

from __future__ import annotations

import errno
import json
from dataclasses import asdict

import ibis
import pytest

from capse.errors import CapseError, DataError, SettingsError, StorageError, UnknownNameError
from capse.search.ingest import IngestSettings, ingest, pipeline
from capse.search.ingest.engines import open_engine
from capse.search.logs.search_log import SearchLog

TIME = 1_700_000_000
LINE = {"impression": "i", "time": TIME, "user": "ada", "query": "q", "results": ["a", "b"], "clicks": ["b"]}


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "raw" / "log.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps({**LINE, "impression": f"i{n}", "time": TIME + n}) + "\n" for n in range(20)))
    return path


def test_the_folder_holds_the_log_and_its_report(source, tmp_path):
    steps: list[str] = []
    report = ingest(source, tmp_path / "log", progress=steps.append)
    names = ["documents.parquet", "impressions.parquet", "log.json", "quarantine.jsonl", "results.parquet"]
    assert sorted(path.name for path in (tmp_path / "log").iterdir()) == names
    assert json.loads((tmp_path / "log/log.json").read_text()) == {"format": 1} | asdict(report)
    assert steps[0] == "reading"
    assert steps[-1] == "writing"
    assert report.source == ["log.jsonl"]
    log = SearchLog.load(tmp_path / "log")
    assert (log.name, len(log), report.counts["impressions"]) == ("log", 20, 20)
    # Without splits of its own, the last tenth tests and the tenth before it validates.
    assert log.split.tolist() == [0] * 16 + [1] * 2 + [2] * 2
    assert any("the last 10 % of the impressions test, the 10 % before them validate" in note for note in report.notes)


def test_positions_from_zero_are_counted_from_one(tmp_path):
    rows = "".join(f"i{n},{1_700_000_000 + n},ada,q,{p},d{p}\n" for n in range(3) for p in range(2))
    (tmp_path / "log.csv").write_text("impression,time,user,query,position,document\n" + rows)
    report = ingest(tmp_path / "log.csv", tmp_path / "log")
    assert SearchLog.load(tmp_path / "log").position.tolist() == [1, 2] * 3
    assert any("counts positions from 0" in note for note in report.notes)


def test_splits_of_the_log_are_kept_under_our_names(source, tmp_path):
    splits = ["training?", "train", "dev", "validation", "valid", "test"]
    source.write_text("".join(json.dumps({**LINE, "impression": s, "split": s}) + "\n" for s in splits))
    report = ingest(source, tmp_path / "log")
    assert report.counts["splits"] == {"train": 1, "valid": 3, "test": 1}
    assert report.quarantined == {"unknown split": 2, "click on a quarantined result": 1}


class TestNothingIsLeft:
    def left(self, tmp_path):
        return [path.name for path in tmp_path.iterdir() if path.name != "raw"]

    @pytest.mark.parametrize("full", [False, True])
    def test_when_it_is_stopped_in_the_middle(self, source, tmp_path, monkeypatch, full):
        def stop(*arguments):
            raise OSError(errno.ENOSPC, "No space left on device") if full else KeyboardInterrupt

        monkeypatch.setattr(pipeline, "judged", stop)
        with pytest.raises(StorageError if full else KeyboardInterrupt):
            ingest(source, tmp_path / "log")
        assert self.left(tmp_path) == []

    @pytest.mark.parametrize(
        ("lines", "message"),
        [
            ("{oops\n", r"no usable row \(not JSON: 1\): check the format"),
            (
                json.dumps({**LINE, "user": None}),
                r"no usable row \(click on a quarantined result: 1, missing user: 2\)",
            ),
            ("", r"no usable row \(nothing in it\)"),
        ],
    )
    def test_when_no_row_is_usable(self, source, tmp_path, lines, message):
        source.write_text(lines)
        with pytest.raises(DataError, match=message):
            ingest(source, tmp_path / "log", format="jsonl")
        assert self.left(tmp_path) == []

    def test_when_the_folder_is_taken(self, source, tmp_path):
        (tmp_path / "log").mkdir()
        (tmp_path / "log/mine").write_text("precious")
        with pytest.raises(SettingsError, match="exists and is not an empty folder"):
            ingest(source, tmp_path / "log")
        assert (tmp_path / "log/mine").read_text() == "precious"

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"format": "jsonll"}, "unknown format 'jsonll': did you mean 'jsonl'?"),
            ({"engine": "sparc"}, "unknown engine 'sparc': did you mean 'spark'?"),
        ],
    )
    def test_when_a_name_is_wrong(self, source, tmp_path, options, message):
        with pytest.raises(UnknownNameError) as caught:
            ingest(source, tmp_path / "log", **options)
        assert str(caught.value) == message
        assert self.left(tmp_path) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"valid_share": 1.0}, "valid_share is 1.0: write a share from 0 to below 1"),
        ({"valid_share": 0.5, "test_share": 0.5}, "leave nothing to train on"),
        ({"gap_seconds": -1}, "gap_seconds is -1"),
        ({"max_results": 0}, "max_results is 0"),
        ({"memory_gib": 0}, "memory_gib is 0"),
        ({"earliest": "long ago"}, "earliest is 'long ago': write a date"),
        ({"without_dwell": "none"}, "ingest.without_dwell is 'none': choose from all, last"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(CapseError, match=message):
        IngestSettings(**settings)


def test_what_the_engine_runs_out_of_is_said_in_one_line(tmp_path):
    numbers = ibis.range(4_000_000).unnest().name("number").as_table()
    with pytest.raises(StorageError, match=r"ran out of memory or disk .* ingest.memory_gib") as caught:
        store_with_little_memory(numbers.agg(all=numbers.number.collect()), tmp_path)
    assert "\n" not in str(caught.value)


def store_with_little_memory(table, folder):
    with open_engine("duckdb", folder, 0.02) as engine:
        engine.store(table, "all")


def test_the_engine_draws_nothing_on_standard_output(tmp_path):
    """DuckDB shows a bar for whatever takes longer than two seconds, unless it is told not to."""
    with open_engine("duckdb", tmp_path, 0.5) as engine:
        shown = engine.backend.con.execute("SELECT current_setting('enable_progress_bar')").fetchone()
    assert shown == (False,)
