"""Records of rankers: written with where they come from, read strictly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from capse.errors import RunError
from capse.search.evaluation.evaluate import evaluate
from capse.search.logs.search_log import SearchLog
from capse.search.rankers.baselines import SE
from capse_paper.recorded.rankings import read_curves, read_records, write_curve, write_record

LOG = SearchLog.from_records(
    (
        {"time": n, "user": "u", "query": "q", "results": ["a", "b", "c"], "clicks": ["b"], "split": "test"}
        for n in range(4)
    ),
    name="tiny",
)
LINES: list[dict[str, Any]] = [
    {"epoch": 1, "loss": 2.0, "validation": {"mrr": 0.25}, "best_epoch": 1},
    {"epoch": 2, "loss": 1.0},
]


@pytest.fixture
def evaluation():
    return evaluate(SE(), LOG)


def test_an_evaluation_comes_back(tmp_path, evaluation):
    path = write_record(tmp_path, evaluation, settings="own", seed=3, recipe="x", training={"epochs": 2})
    assert path == tmp_path / "search" / "tiny" / "se-own" / "prequential-seed-3.json"
    (record,) = read_records(tmp_path)
    assert (record.log, record.method, record.settings) == ("tiny", "se", "own")
    assert (record.history, record.seed, record.recipe) == ("prequential", 3, "x")
    assert record.metrics == evaluation.metrics
    assert record.reciprocal_ranks == [0.5] * 4
    content = json.loads(path.read_text())
    printed = json.loads(json.dumps(evaluation.to_json()))
    assert {key: content[key] for key in printed} == printed
    assert {"command", "commit", "date", "machine", "versions"} <= set(content)
    assert content["training"] == {"epochs": 2}


def test_a_curve_comes_back(tmp_path, evaluation):
    write_record(tmp_path, evaluation, settings="own")
    path = write_curve(tmp_path, "tiny", "capse", 50, LINES, settings="paper", seed=1)
    assert path == tmp_path / "search" / "tiny" / "curves" / "capse-paper-n50-seed-1.json"
    (curve,) = read_curves(tmp_path)
    assert (curve.filters, curve.seed, curve.lines) == (50, 1, LINES)
    assert len(read_records(tmp_path)) == 1


def test_nothing_recorded_is_no_error(tmp_path):
    assert not read_records(tmp_path)
    assert not read_curves(tmp_path)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"seed": 7}, "holds what belongs in"),
        ({"history": "frozen"}, "holds what belongs in"),
        ({"mrr": "high"}, "damaged"),
        ({"reciprocal_ranks": [1.0]}, "one reciprocal rank for each impression"),
        ({"commit": ...}, "no commit"),
        ({"hits@1": ...}, "no hits@1"),
    ],
)
def test_a_record_that_says_something_else_is_refused(tmp_path, evaluation, change, complaint):
    path = write_record(tmp_path, evaluation, settings="own")
    content = json.loads(path.read_text()) | change
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not ...}, default=str))
    with pytest.raises(RunError, match=complaint):
        read_records(tmp_path)


def test_a_damaged_curve_is_refused(tmp_path):
    path = write_curve(tmp_path, "tiny", "capse", 50, [{"epoch": 1, "validation": {}}], settings="paper")
    with pytest.raises(RunError, match="no mrr"):
        read_curves(tmp_path)
    path.write_text("{")
    with pytest.raises(RunError, match="damaged"):
        read_curves(tmp_path)
