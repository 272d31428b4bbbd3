"""Whatever a log holds: every staged row is kept, collapsed or quarantined, and what is written is a log."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from capse.search.ingest.engines import open_engine
from capse.search.ingest.pipeline import run
from capse.search.ingest.settings import IngestSettings
from capse.search.ingest.staging import Staging, TableName
from capse.search.ingest.writing import write_tables
from capse.search.logs.documents import Documents
from capse.search.logs.search_log import SearchLog
from capse.search.times import to_seconds

START = 1_700_000_000_000_000
few = st.sampled_from
labels = few([None, "", "i1", "\0", "é\U0001f600"])
documents = few([None, "", "a", "b", "c", "'\"", "\n"])
times = few([None, -1, 0, START, START + 1, START + 10_000_000, START + 10**13, 2**62])
heads = st.fixed_dictionaries(
    {
        "impression": labels,
        "time": times,
        "user": few([None, "", "u", "v"]),
        "session": few([None, "", "s"]),
        "query": few([None, "", "q"]),
        "split": few([None, "train", "dev", "nonsense"]),
    }
)
# Drawn one by one most are broken; these are not, unless others name splits.
whole = few([{"impression": f"i{n}", "time": START, "user": "u", "session": None, "query": "q"} for n in range(3)])
places = st.fixed_dictionaries({"position": few([None, -5, 0, 1, 2, 3, 2**31 - 1, 2**31]), "document": documents})
results = st.builds(lambda head, place: head | place, heads | whole, places)
clicks = st.fixed_dictionaries(
    {
        "impression": labels,
        "document": documents,
        "time": times,
        "dwell": few([None, -1.0, 0.0, 29.0, 30.0, 1e300]),
        "event": few([None, "", "e"]),
    }
)
described = st.fixed_dictionaries(
    {"document": documents, "title": few([None, "", "t"]), "text": few([None, "x"]), "terms": few([None, {}, {"w": 2}])}
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    with open_engine("duckdb", tmp_path_factory.mktemp("scratch"), 1.0) as engine:
        yield engine


# Every try is an ingest, so a counterexample is shown as it was found.
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(
    shown=st.lists(results, max_size=30),
    clicked=st.lists(clicks, max_size=15),
    told=st.lists(described, max_size=6),
)
def test_every_row_is_somewhere(engine, tmp_path_factory, shown, clicked, told):
    folder = tmp_path_factory.mktemp("log")
    (folder / "staged").mkdir()
    with Staging(folder / "staged") as staging:
        for row in shown:
            staging.result(**row)
        for row in clicked:
            staging.click(**row)
        for row in told:
            staging.document(**row)
    ingested = run(engine, staging, IngestSettings(latest="2030-01-01", max_results=2), lambda step: None)
    write_tables(folder, engine, ingested, staging)

    quarantine = [json.loads(line) for line in (folder / "quarantine.jsonl").read_text().splitlines()]
    tables: list[tuple[TableName, Any]] = [("results", shown), ("clicks", clicked), ("documents", told)]
    for table, rows in tables:
        counts = ingested.counts[table]
        assert counts["staged"] == len(rows)
        assert counts["staged"] == counts["kept"] + counts["collapsed"] + counts["quarantined"]
        lines = [line for line in quarantine if line["table"] == table]
        assert counts["quarantined"] == len(lines)
        # Every line is a row that was staged, and tells all of it.
        staged = {_shape(_in_seconds(row)) for row in pq.read_table(staging.path(table)).to_pylist()}
        assert {_shape(line) for line in lines} - staged == set()
    assert Counter(line["reason"] for line in quarantine) == ingested.quarantined

    written = {name: pq.read_table(folder / f"{name}.parquet") for name in ("impressions", "results")}
    assert len(written["results"]) == ingested.counts["results"]["kept"]
    log = SearchLog.from_tables(
        "log", written["impressions"], written["results"], Documents.load(folder / "documents.parquet")
    )
    assert (np.diff(log.time) >= 0).all()
    assert (log.lengths > 0).all()
    for number in range(len(log)):
        positions = log.position[log.offsets[number] : log.offsets[number + 1]]
        assert (np.diff(positions) > 0).all()
        assert positions[0] >= 1
    assert not (log.satisfied & ~log.clicked).any()


def _in_seconds(row):
    return row if row.get("time") is None else row | {"time": to_seconds(row["time"])}


def _shape(row):
    """A row as a key: its staged columns that are not null; positions as the pipeline counts them may be one higher."""
    kept = {name: value for name, value in row.items() if name not in ("reason", "table", "position")}
    return json.dumps({name: value for name, value in kept.items() if value is not None}, sort_keys=True)
