"""DuckDB and Spark: one log with everything that can be wrong with it, and the same tables from both, row for row."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from capse.search.ingest import ingest
from capse.search.logs.simulation import SimulationSettings, simulate

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def messy(tmp_path_factory):
    """A simulated log without splits, part of its sessions unnamed, and a tenth of its lines spoilt in some way."""
    folder = tmp_path_factory.mktemp("messy")
    simulated = simulate(SimulationSettings(users=12, documents=80, impressions=400))
    simulated.write_jsonl(folder)
    draw = random.Random(0)
    lines = []
    for number, record in enumerate(map(json.loads, (folder / "log.jsonl").read_text().splitlines())):
        record.pop("split")
        if record["user"] < "user-06":
            record.pop("session")
        spoilt = draw.choice(SPOILERS)(record) if number % 10 == 0 else [record]
        lines += [line if isinstance(line, str) else json.dumps(line) for line in spoilt]
    draw.shuffle(lines)
    (folder / "log.jsonl").write_text("\n".join(lines), encoding="utf-8")
    told = [{"doc": "d1", "title": "told otherwise"}, {"doc": "d2"}, {"doc": "d2"}, {"doc": "", "title": "nobody's"}]
    with (folder / "documents.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in told)
    return folder


def clicked(record, **changes):
    """The record with its first result clicked, and that click changed."""
    at = record["timestamp"] + 3
    return [{**record, "clicks": [{"doc": record["results"][0], "time": at, "dwell": 12.5, **changes}]}]


SPOILERS = [
    lambda record: [record, record],
    lambda record: [record, {**record, "id": "same"}, {**record, "id": "same", "timestamp": record["timestamp"] + 60}],
    lambda record: [json.dumps(record)[:-5]],
    lambda record: [{**record, "timestamp": 3}],
    lambda record: [{**record, "timestamp": 4_000_000_000}],
    lambda record: [{**record, "timestamp": None}],
    lambda record: [{**record, "user": ""}],
    lambda record: [{**record, "query": "Ünïcödé \U0001f600 'quoted' \"twice\" \\ \t"}],
    lambda record: [{**record, "results": [*record["results"], record["results"][2], None, "nobody-knows"]}],
    lambda record: [{**record, "results": [f"r{n}" for n in range(1_005)]}],
    lambda record: clicked(record, time=record["timestamp"] - 1),
    lambda record: clicked(record, doc="elsewhere"),
    lambda record: clicked(record, dwell=-1),
    lambda record: clicked(record, dwell=None),
    lambda record: clicked(record, event="shared by several"),
    lambda record: clicked(record, time=record["timestamp"] + 10**6),
]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Py4J's sockets to Java stay open
def test_both_write_the_same_log(messy, tmp_path, capfd):
    """Java 17 and the extra `spark` have to be there."""
    expected = ingest(messy, tmp_path / "duckdb")
    assert len(expected.quarantined) >= 10
    found = ingest(messy, tmp_path / "spark", engine="spark")
    output, errors = capfd.readouterr()
    assert (output, errors) == ("", "")  # Spark keeps its warnings to itself
    for name in ("counts", "quarantined", "notes", "settings"):
        assert getattr(found, name) == getattr(expected, name)
    for name in ("impressions", "results", "documents"):
        tables = [pq.read_table(tmp_path / engine / f"{name}.parquet") for engine in ("duckdb", "spark")]
        assert tables[0].schema == tables[1].schema
        assert tables[0].to_pylist() == tables[1].to_pylist()
    quarantines = [(tmp_path / engine / "quarantine.jsonl").read_text() for engine in ("duckdb", "spark")]
    assert quarantines[0] == quarantines[1]
    assert len(quarantines[0].splitlines()) == sum(expected.quarantined.values())


def test_without_java_spark_says_so_in_one_line(messy, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "capse", "search", "ingest", messy, "--engine", "spark", "--out", tmp_path / "out"],
        env={**os.environ, "JAVA_HOME": str(tmp_path / "none")},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: Spark does not start (")
    assert "install Java 17" in line
    assert list(tmp_path.iterdir()) == []
