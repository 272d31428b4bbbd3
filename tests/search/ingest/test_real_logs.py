"""A real log whose counts are known, and a simulated one that is known altogether; others are with their sources."""

from __future__ import annotations

import json
from dataclasses import fields

import numpy as np
import pytest

from capse.search.evaluation.evaluate import evaluate
from capse.search.ingest import ingest, open_log
from capse.search.logs.search_log import SearchLog
from capse.search.logs.simulation import SimulationSettings, simulate
from capse.search.rankers.baselines import SE


def test_gitsearch(real_data, tmp_path):
    if not (real_data / "gitsearch").is_dir():
        pytest.skip("CAPSE_DATA has no gitsearch")
    report = ingest(real_data / "gitsearch", tmp_path / "log")
    log = SearchLog.load(tmp_path / "log")
    assert report.source_format == "jsonl"
    assert report.counts["splits"] == {"train": 4_207, "valid": 426, "test": 2_783}
    assert len(log.documents) == report.counts["documents"]["kept"] == 2_848
    assert report.quarantined == {}
    assert any("or one whose dwell is not known: 9,213 of 9,213 clicked results are" in note for note in report.notes)
    found = evaluate(SE(), log, beside=False)
    assert found.impressions == 2_783
    assert found.metrics["mrr"] == pytest.approx(0.5615, abs=5e-5)
    assert found.metrics["hits@1"] == pytest.approx(0.380, abs=5e-4)


def test_a_simulated_log_comes_back_as_it_was(tmp_path):
    """Written as JSON lines and ingested, it is the log that the simulation itself made."""
    simulated = simulate(SimulationSettings(users=8, documents=60, impressions=150))
    simulated.write_jsonl(tmp_path / "raw")
    report = ingest(tmp_path / "raw", tmp_path / "simulated")
    assert report.quarantined == {}
    found = SearchLog.load(tmp_path / "simulated")
    assert same(simulated.log, found) == []
    opened = open_log(tmp_path / "raw")
    assert (opened.name, same(simulated.log, opened)) == ("raw", [])


def same(expected, found):
    """The names of the columns in which two logs differ, labels compared and not numbers."""
    different = []
    for field in fields(SearchLog):
        if field.name in ("name", "users", "sessions", "queries", "documents"):
            continue
        ours, theirs = getattr(expected, field.name), getattr(found, field.name)
        if field.name in (labels := {"user": "users", "session": "sessions", "query": "queries"}):
            ours = np.array(getattr(expected, labels[field.name]))[ours]
            theirs = np.array(getattr(found, labels[field.name]))[theirs]
        elif field.name == "document":
            ours, theirs = np.array(expected.documents.ids)[ours], np.array(found.documents.ids)[theirs]
        if field.name == "actions":
            ours, theirs = (list(zip(*vars(actions).values(), strict=True)) for actions in (ours, theirs))
        elif field.name == "fields":
            ours, theirs = ours.content(), theirs.content()
        if not np.array_equal(ours, theirs):
            different.append(field.name)
    for name in ("titles", "texts", "terms"):
        told = [dict(zip(log.documents.ids, getattr(log.documents, name), strict=True)) for log in (expected, found)]
        if told[0] != told[1]:
            different.append(f"documents.{name}")
    return different


def test_the_comparison_above_can_fail(tmp_path):
    simulated = simulate(SimulationSettings(users=3, documents=40, impressions=20))
    simulated.write_jsonl(tmp_path)
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    record = json.loads(lines[0])
    record["results"][:2] = record["results"][1::-1]
    (tmp_path / "log.jsonl").write_text("\n".join([json.dumps({**record, "user": "user-2"}), *lines[1:]]))
    assert same(simulated.log, open_log(tmp_path)) != []
