"""capse search ingest and simulate: what they print, what they refuse, and what Ctrl-C leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial

import pytest

from capse.search.ingest import pipeline
from capse.search.logs.search_log import SearchLog

TIME = 1_700_000_000
LINE = {"impression": "i", "time": TIME, "user": "ada", "query": "q", "results": ["a", "b"], "clicks": ["b"]}


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A folder with a small log, as the current folder."""
    lines = [json.dumps({**LINE, "impression": f"i{n}", "time": TIME + n}) for n in range(30)]
    lines += ["{oops", json.dumps({**LINE, "impression": "x", "user": None}), lines[0]]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def capse(run_command):
    """Runs ``capse search ...``."""
    return partial(run_command, "search")


def test_says_what_became_of_every_row(work, capse):
    status, output, errors = capse("ingest", "log.jsonl", "--out", "out", "--set", "ingest.gap_seconds=60")
    assert status == 0
    assert errors.splitlines()[0] == "reading"
    lines = output.splitlines()
    assert lines[0].startswith("out: 30 impressions, 1 users, 1 sessions, 1 queries (jsonl, duckdb, ")
    assert lines[1] == "train / valid / test: 24 / 3 / 3"
    assert [line.split() for line in lines[3:8]] == [
        ["read", "kept", "copies", "quarantined"],
        ["results", "64", "60", "2", "2"],
        ["clicks", "32", "30", "1", "1"],
        ["documents", "0", "0", "0", "0"],
        ["unreadable", "1", "1"],
    ]
    assert "         2  missing user" in lines
    assert "         1  not JSON" in lines
    assert any(
        line.startswith("note: 30 of 30 impressions name no session: sessions are cut after 1 min") for line in lines
    )
    assert len(SearchLog.load("out")) == 30


def test_prints_the_report_as_json(work, capse):
    _, output, _ = capse("ingest", "log.jsonl", "--format", "jsonl", "--out", "out", "--json")
    report = json.loads(output)
    assert {"format": 1, **report} == json.loads((work / "out/log.json").read_text())
    assert report["counts"]["results"] == {"staged": 64, "kept": 60, "collapsed": 2, "quarantined": 2}
    assert report["quarantined"] == {"click on a quarantined result": 1, "missing user": 2, "not JSON": 1}


def test_makes_a_log_from_a_repository(work, capse):
    def git(*arguments):
        who = {
            f"GIT_{role}_{what}": "ada@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        subprocess.run(["git", "-C", "repo", *arguments], check=True, env={**os.environ, **who}, capture_output=True)

    (work / "repo").mkdir()
    git("init", "-q")
    for name in ("engine", "loom", "card"):
        (work / "repo" / f"{name}.txt").write_text(f"about the {name}")
        git("add", ".")
        git("commit", "-qm", f"Describe the {name}")
    status, output, _ = capse("ingest", "--from-git", "repo", "--out", "out")
    assert (status, output.splitlines()[0].split(",")[0]) == (0, "out: 3 impressions")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "out"], "no log is named: name its files"),
        (["log.jsonl", "--from-git", ".", "--out", "out"], "both files and --from-git are given"),
        (["nothing.jsonl", "--out", "out"], "nothing.jsonl: no such file or folder"),
        (["--from-git", "nowhere", "--out", "out"], "nowhere: no such folder"),
        (["log.jsonl", "--out", "."], ". exists and is not an empty folder"),
        (["log.jsonl", "--out", "out", "--engine", "duck"], "unknown engine 'duck': did you mean 'duckdb'?"),
        (["log.jsonl", "--out", "out", "--format", "xml"], "unknown format 'xml'"),
        (["log.jsonl", "--out", "out", "--set", "ingest.gap_second=5"], "did you mean 'ingest.gap_seconds'?"),
        (["log.jsonl", "--out", "out", "--set", "ingest.gap_seconds=long"], "ingest.gap_seconds is 'long'"),
        (["log.jsonl", "--out", "out", "--set", "gap_seconds=5"], "cannot read --set 'gap_seconds=5'"),
        (["log.jsonl", "--out", "out", "--set", "training.epochs=5"], "unknown setting 'training'"),
        (["log.jsonl", "--out", "out", "--format", "csv"], "log.jsonl: no column document"),
    ],
)
def test_a_mistake_is_one_line(work, capse, arguments, message):
    status, output, errors = capse("ingest", *arguments)
    assert (status, output) == (2, "")
    last = errors.splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last
    assert [path.name for path in work.iterdir()] == ["log.jsonl"]


def test_ctrl_c_leaves_nothing(work, capse, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "judged", stop)
    status, output, errors = capse("ingest", "log.jsonl", "--out", "out")
    assert (status, output) == (130, "")
    assert errors.splitlines()[-1] == "stopped; nothing was written"
    assert [path.name for path in work.iterdir()] == ["log.jsonl"]


@pytest.mark.slow
@pytest.mark.parametrize("step", ["reading", "joining the clicks", "writing"])
def test_ctrl_c_in_a_process_of_its_own(tmp_path, capse, step):
    capse("simulate", "--out", tmp_path / "raw", "--set", "simulation.impressions=20000")
    process = subprocess.Popen(
        [sys.executable, "-m", "capse", "search", "ingest", tmp_path / "raw", "--out", tmp_path / "out"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert any(line.strip() == step for line in process.stderr or ())
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, "")
    assert errors.splitlines()[-1] == "stopped; nothing was written"
    assert "Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


class TestSimulate:
    def test_writes_a_log_that_ingest_reads(self, work, capse):
        small = ["--set", "simulation.users=4", "--set", "simulation.impressions=40"]
        status, output, _ = capse("simulate", "--out", "raw", *small)
        assert (status, output) == (0, "raw: 40 impressions of 4 users, 300 documents\n")
        assert sorted(path.name for path in (work / "raw").iterdir()) == ["documents.jsonl", "log.jsonl"]
        capse("simulate", "--out", "again", *small)
        assert (work / "raw/log.jsonl").read_bytes() == (work / "again/log.jsonl").read_bytes()
        assert capse("ingest", "raw", "--out", "out")[0] == 0
        assert len(SearchLog.load("out")) == 40

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--out", "."], ". exists and is not an empty folder"),
            (["--out", "out", "--set", "simulation.user=4"], "did you mean 'simulation.users'?"),
            (["--out", "out", "--set", "simulation.users=0"], "simulation.users is 0"),
        ],
    )
    def test_a_mistake_is_one_line(self, work, capse, arguments, message):
        status, output, errors = capse("simulate", *arguments)
        assert (status, output, len(errors.splitlines())) == (2, "", 1)
        assert message in errors
        assert [path.name for path in work.iterdir()] == ["log.jsonl"]


def test_the_group_lists_its_commands_without_importing_them(capse):
    status, output, _ = capse("--help")
    assert status == 0
    assert "ingest    " in output
    assert "simulate  " in output


def test_what_the_service_stored_is_a_log(work, capse):
    from capse.service.store import Event, KeptList, Store

    with Store.open("capse.db") as store:
        store.keep_lists([KeptList("ada", "s", (TIME + n) * 10**6, "q", ("a", "b"), (2, 1), "v") for n in range(4)])
        store.add([Event(id="c", kind="click", user="ada", session="s", time=(TIME + 9) * 10**6, document="b")])
    (work / "documents.jsonl").write_text('{"document": "a", "title": "A"}\n')
    status, output, errors = capse("ingest", "sqlite:///capse.db", "documents.jsonl", "--out", "out", "--json")
    assert status == 0, errors
    report = json.loads(output)
    assert (report["source_format"], report["counts"]["impressions"], report["counts"]["clicks"]["kept"]) == (
        "store",
        4,
        1,
    )
    assert SearchLog.load(work / "out").documents.titles == ["A", ""]
    assert capse("ingest", "sqlite:///capse.db", "--since", str(TIME + 2), "--out", "later")[0] == 0
    assert len(SearchLog.load(work / "later")) == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["sqlite:///none.db"], "none.db cannot be reached"),
        (["mysql://host/db"], "there is no support for mysql databases"),
        (["postgresql://nobody@localhost:1/db"], "cannot be reached"),
        (["sqlite:///a.db", "sqlite:///b.db"], "one database is read at a time"),
        (["log.jsonl", "--since", "2024-01-01"], "--since is for a database"),
        (["sqlite:///log.jsonl"], "log.jsonl is damaged"),
        (["sqlite:///empty.db", "none.jsonl"], "holds no lists to learn from"),
        (["sqlite:///empty.db"], "holds no lists to learn from"),
        (["sqlite:///empty.db", "--since", "whenever"], "--since is 'whenever': write a date"),
        (["sqlite:///empty.db", "--format", "jsonl"], "--format is given with a database"),
    ],
)
def test_a_database_that_cannot_be_read(work, capse, arguments, says):
    from capse.service.store import Store

    Store.open("empty.db").close()
    before = sorted(work.iterdir())
    status, output, errors = capse("ingest", *arguments, "--out", "out")
    assert (status, output) == (2, "")
    assert says in errors.splitlines()[-1]
    assert sorted(path for path in work.iterdir() if "empty.db" not in path.name) == [
        path for path in before if "empty.db" not in path.name
    ]
