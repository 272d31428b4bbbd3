"""Runs of the first format, made at commit cf3fbbc, evaluate to the digits that they had then.

``format-1.tar.gz`` holds three epochs of every model on forty towns (``graph/``), a training that was stopped after two
of them (``graph/stopped``), a simulated log of 200 impressions, runs on it (``search/``), and what that commit's
``evaluate`` said of each (``graph.json``, ``search.json``).
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
import torch

import capse
from capse.cli import main
from capse.errors import RunError

ARCHIVE = Path(__file__).with_name("format-1.tar.gz")
GRAPH_RUNS = [
    "capse",
    "capse-released",
    "capse-routing",
    "capse-scaled",
    "capse-scaled-distance",
    "capse-scaled-product",
    "complex",
    "conve",
    "convkb",
    "distmult",
    "stranse",
    "transd",
    "transe",
    "transh",
    "transr",
]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "format-1"


@pytest.mark.parametrize("name", GRAPH_RUNS)
def test_a_graph_run_has_the_scores_and_metrics_it_had(old: Path, name: str) -> None:
    expected = json.loads((old / "graph.json").read_text())
    assert sorted(expected) == GRAPH_RUNS
    run = capse.load(old / "graph" / name)
    assert isinstance(run, capse.LinkPredictor)
    metrics = run.evaluate("test").metrics
    assert {side: metrics[side] for side in expected[name]["metrics"]} == expected[name][
        "metrics"
    ]  # relations are ranked since
    with torch.no_grad():
        scores = run.model.score_triples(*torch.as_tensor(run.graph.test).T.long())
    assert torch.allclose(scores, torch.tensor(expected[name]["scores"]), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("method", ["capse", "convkb", "transe"])
def test_a_search_run_has_the_metrics_it_had(old: Path, method: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["search", "evaluate", "--log", str(old / "log"), "--method", method, "--json"]
    with pytest.raises(SystemExit) as ended:
        main([*command, "--run", str(old / "search" / method)])
    assert not ended.value.code
    found, expected = json.loads(capsys.readouterr().out), json.loads((old / "search.json").read_text())[method]
    for key in ("impressions", "mrr", "hits@1", "ndcg@10"):
        assert found[key] == pytest.approx(expected[key], abs=1e-9)


@pytest.mark.parametrize("method", ["sp", "blend"])
def test_trees_of_format_1_say_which_version_can_use_them(old: Path, method: str) -> None:
    """Among their features were counts that a service cannot have; today's trees do without."""
    with pytest.raises(RunError, match=r"is of capse 0\.1\.0, which alone can use it: train it again"):
        capse.Reranker.load(old / "search" / method)


def test_a_stopped_training_goes_on_or_says_which_version_can(old: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["train", "--resume", "--out", str(old / "graph" / "stopped")])
    assert not ended.value.code
    assert capse.LinkPredictor.load(old / "graph" / "stopped").evaluate("test").triples == 4
