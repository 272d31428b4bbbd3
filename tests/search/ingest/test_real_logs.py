"""Real logs with counts that are known, and a simulated one that is known altogether."""

from __future__ import annotations

import json
from dataclasses import fields

import numpy as np
import pytest

from capse.search.baselines import SE
from capse.search.evaluation import evaluate
from capse.search.ingest import ingest, open_log
from capse.search.log import SearchLog
from capse.search.simulate import SimulationSettings, simulate


class Constant:
    """Knows nothing: every document is as good as any other."""

    name = "constant"

    def score(self, log, impressions, cutoffs):
        return np.zeros(len(log.rows(impressions)))


@pytest.fixture(scope="module")
def real(real_data, tmp_path_factory):
    """Ingest a data set by name, or skip."""

    def read(name):
        if not (real_data / name).is_dir():
            pytest.skip(f"CAPSE_DATA has no {name}")
        folder = tmp_path_factory.mktemp(name) / "log"
        return ingest(real_data / name, folder), SearchLog.load(folder)

    return read


@pytest.fixture(scope="module")
def search17(real):
    return real("search17")[1]


def test_gitsearch(real):
    report, log = real("gitsearch")
    assert report.source_format == "jsonl"
    assert report.counts["splits"] == {"train": 4_207, "valid": 426, "test": 2_783}
    assert len(log.documents) == report.counts["documents"]["kept"] == 2_848
    assert report.quarantined == {}
    assert any("the log knows no dwell: every click counts as satisfied" in note for note in report.notes)
    found = evaluate(SE(), log, beside=False)
    assert found.impressions == 2_783
    assert found.metrics["mrr"] == pytest.approx(0.5615, abs=5e-5)
    assert found.metrics["hits@1"] == pytest.approx(0.380, abs=5e-4)


def test_the_engine_of_search17(search17):
    found = evaluate(SE(), search17)
    assert found.impressions == 1_210
    assert found.metrics["mrr"] == pytest.approx(0.5590, abs=5e-5)
    assert found.metrics["hits@1"] == pytest.approx(0.385, abs=5e-4)
    artefact = "in all 22 lists of more than 10 results the relevant document is the last"
    assert any(artefact in warning and "from 0.5590 to 0.57" in warning for warning in found.warnings)


def test_a_constant_scorer_gets_chance_though_the_relevant_document_comes_first_in_the_file(search17):
    found = evaluate(Constant(), search17)
    assert found.metrics["mrr"] == pytest.approx(found.beside["chance"]["mrr"])
    assert found.metrics["mrr"] == pytest.approx(0.353, abs=5e-4)
    assert found.metrics["hits@1"] == pytest.approx(0.138, abs=5e-4)
    assert any("constant is not significantly above chance" in warning for warning in found.warnings)


def test_the_satisfied_clicks_of_trec_2013_by_their_own_ranks(real):
    _, log = real("trec-session-2013")
    assert log.satisfied.sum() == 297
    clicks = reciprocal = 0.0
    for split in ("train", "valid", "test"):
        found = evaluate(SE(), log, split=split, beside=False)
        clicks += found.per_click["clicks"]
        reciprocal += found.per_click["clicks"] * found.per_click["mrr"]
    assert clicks == 297
    assert reciprocal / clicks == pytest.approx(0.374, abs=5e-4)


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
