import json

import pytest

from capse.errors import RunError
from capse.experiments.grid import load_grid
from capse_paper.findings.collect import collect
from capse_paper.plans.graphs import PLAN
from capse_paper.recorded.grids import recorded_grids
from capse_paper.recorded.runs import Results
from capse_paper.report.blocks import grid_block
from capse_paper.report.page import render

MACHINES = {3: {"processor": "x", "threads": 1}, 1: {"processor": "x", "threads": 1, "gpu": "a GPU"}}


@pytest.fixture
def study(writer):
    """ConvKB's grid of 12 with trials 3 and 1 done."""
    folder = writer.folder / "studies" / "convkb-wn18rr"
    grid = load_grid("convkb-paper", overrides=["start.run=runs/transe"])
    trials = []
    for (number, machine), value in zip(MACHINES.items(), (0.5312, 0.25), strict=True):
        (folder / "trials" / f"{number:03}").mkdir(parents=True)
        (folder / "trials" / f"{number:03}" / "results.json").write_text(json.dumps({"machine": machine}))
        outcome = {"trial": number, "settings": grid.trials()[number].settings, "metric": "hits@10", "value": value}
        trials.append(outcome | {"epochs": 100, "best_epoch": 20, "seconds": 1234.5, "run": "somewhere"})
    (folder / "study.yaml").write_text(grid.to_yaml())
    (folder / "trials.jsonl").write_text("".join(json.dumps(trial) + "\n" for trial in trials))
    return folder


def test_a_grid_says_how_far_it_was_gone_through(study, writer):
    (grid,) = recorded_grids(writer.folder)
    block = grid_block(grid)
    assert block.title.startswith("convkb-wn18rr: 2 of 12 trials, hits@10")
    assert block.header == (
        "model.filters",
        "training.learning_rate",
        "hits@10",
        "epoch kept",
        "training s",
        "machine",
    )
    assert block.rows == [
        ("100", "1e-05", "53.12", "20", "1,234", "x, 1 threads"),
        ("50", "5e-05", "25.00", "20", "1,234", "a GPU"),
    ]
    assert grid.to_json()["start"] == "runs/transe"
    assert [trial["trial"] for trial in grid.to_json()["trials"]] == [3, 1]


def test_a_grid_of_which_nothing_is_done(study, writer):
    (study / "trials.jsonl").write_text("")
    (grid,) = recorded_grids(writer.folder)
    assert grid_block(grid).title.startswith("convkb-wn18rr: 0 of 12 trials")
    assert not grid_block(grid).rows


def test_a_trial_that_failed_is_left_out(study, writer):
    with (study / "trials.jsonl").open("a") as table:
        table.write(json.dumps({"trial": 7, "value": None, "error": "no memory"}) + "\n")
    (grid,) = recorded_grids(writer.folder)
    assert len(grid.trials) == 2


def test_no_grids(tmp_path):
    assert recorded_grids(tmp_path) == []


@pytest.mark.usefixtures("study")
def test_the_report_has_them(writer):
    assert "2 of 12 trials" in render(collect(Results(writer.folder), PLAN))


@pytest.mark.parametrize("file", ["trials.jsonl", "trials/003/results.json"])
def test_a_damaged_study_is_named(study, writer, file):
    (study / file).write_text("{")
    with pytest.raises(RunError, match="convkb-wn18rr is damaged"):
        recorded_grids(writer.folder)
