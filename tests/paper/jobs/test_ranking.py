"""Table 4's plan, and making what is missing of it."""

from __future__ import annotations

import json
from functools import partial

import pytest

from capse.cli import main
from capse.errors import DataError, UnknownNameError
from capse.experiments.search.methods import METHODS
from capse.experiments.search.recipe import SearchRecipe
from capse.search.logs.simulation import SimulationSettings, simulate
from capse.search.rankers.baselines import SE
from capse_paper.findings.paper import FILTERS
from capse_paper.jobs import ranking
from capse_paper.jobs.ranking import MAKERS, Made, missing_jobs
from capse_paper.plans import rankers
from capse_paper.plans.rankers import CURVE_PLAN, SEARCH_PLAN, CurveExperiment, SearchExperiment, choose
from capse_paper.recorded.rankings import read_curves, read_records

TINY = (
    SearchExperiment("tiny", "se", "paper"),
    SearchExperiment("tiny", "session-refinding", histories=("prequential",)),
    SearchExperiment("tiny", "lucky", seeds=(0, 1, 2)),
)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A log below CAPSE_DATA, and a method of which we know how often it was made."""
    made = []

    def lucky(experiment, log, seed):
        made.append((log.name, seed))
        return Made(SE(), {"seed": seed}, {"epochs": 3})

    simulate(SimulationSettings(impressions=120)).write_jsonl(tmp_path / "data" / "tiny")
    monkeypatch.setenv("CAPSE_DATA", str(tmp_path / "data"))
    monkeypatch.setitem(MAKERS, "lucky", lucky)
    monkeypatch.setattr(rankers, "SEARCH_PLAN", TINY)
    monkeypatch.chdir(tmp_path)
    for cached in (ranking.find_log, ranking.vectors_of):
        cached.cache_clear()
    yield made
    for cached in (ranking.find_log, ranking.vectors_of):
        cached.cache_clear()


def test_every_method_of_the_plan_can_be_made():
    known = {*MAKERS, *METHODS}
    assert {experiment.method for experiment in SEARCH_PLAN} <= known
    names = [experiment.name for experiment in SEARCH_PLAN]
    assert len(set(names)) == len(names)
    assert {e.seeds for e in SEARCH_PLAN if e.method in ("transe", "convkb", "capse", "blend")} == {(0, 1, 2, 3, 4)}


def test_what_is_missing_is_made_once_and_recorded(data, tmp_path):
    for job in missing_jobs(TINY, tmp_path / "out"):
        job.run()
    found = [(r.method, r.history, r.seed) for r in read_records(tmp_path / "out")]
    assert found == [
        *(("lucky", history, seed) for history in ("frozen", "prequential") for seed in (0, 1, 2)),
        ("se", "frozen", 0),
        ("se", "prequential", 0),
        ("session-refinding", "prequential", 0),
    ]
    assert data == [("tiny", seed) for seed in (0, 1, 2)]
    assert missing_jobs(TINY, tmp_path / "out") == []
    (tmp_path / "out/search/tiny/lucky-own/frozen-seed-1.json").unlink()
    (job,) = missing_jobs(TINY, tmp_path / "out")
    kept = tmp_path / "out/search/tiny/lucky-own/prequential-seed-1.json"
    before = kept.read_bytes()
    assert [path.name for path in job.run()] == ["frozen-seed-1.json"]
    assert kept.read_bytes() == before
    content = json.loads(before)
    assert (content["resolved"], content["training"]) == ({"seed": 1}, {"epochs": 3})


def test_some_seeds_of_some_experiments(data, tmp_path):
    jobs = missing_jobs(choose(TINY, ["tiny-lucky-own", "tiny-se-paper"]), tmp_path, seeds=[0, 2, 9])
    assert [job.name for job in jobs] == ["tiny-lucky-own, seed 0", "tiny-lucky-own, seed 2", "tiny-se-paper, seed 0"]
    with pytest.raises(UnknownNameError, match="tiny-lucky-own"):
        choose(TINY, ["tiny-luck-own"])


def test_the_command_makes_and_shows_them(data, tmp_path, capsys):
    with pytest.raises(SystemExit) as exit:
        main(["reproduce", "table4", "--run", "--out", "mine", "--only", "tiny-se-paper", "--json"])
    output, errors = capsys.readouterr()
    assert exit.value.code in (None, 0)
    assert "1 of 1: tiny-se-paper, seed 0" in errors
    rows = [row for row in json.loads(output) if row["dataset"] == "tiny"]
    assert [(row["model"], row["history"]) for row in rows] == [("SE", "prequential"), ("SE", "frozen")]
    assert rows[0]["ours"]["expected"]["mrr"]["seeds"] == [0]


def test_a_log_that_is_not_there_is_named(data, tmp_path):
    (job,) = missing_jobs([SearchExperiment("nowhere", "se")], tmp_path)
    with pytest.raises(DataError, match="nowhere is not in CAPSE_DATA"):
        job.run()
    assert not (tmp_path / "search").exists()


def test_a_neural_ranker_is_recorded_with_its_recipe_and_epochs(data, tmp_path, monkeypatch):
    quick = partial(SearchRecipe.resolve, overrides=["training.epochs=2", "training.seed=3", "vectors.dimensions=8"])
    monkeypatch.setattr(SearchRecipe, "resolve", lambda recipe, model, overrides: quick(recipe))
    (job,) = missing_jobs([SearchExperiment("tiny", "transe", recipe="transe", seeds=(3,))], tmp_path / "out")
    content = json.loads(job.run()[0].read_text())
    assert (content["recipe"], content["resolved"]["training"]["seed"]) == ("transe", 3)
    assert content["training"]["epochs"] == 2
    assert content["training"]["best"]["epoch"] in (1, 2)


def test_the_curves_of_figure_4_are_trained_once(data, tmp_path, capsys, monkeypatch):
    assert tuple(experiment.filters for experiment in CURVE_PLAN) == FILTERS
    quick = ("vectors.dimensions=8", "training.epochs=2")
    plan = [CurveExperiment(filters, "tiny", overrides=quick) for filters in (2, 4)]
    monkeypatch.setattr(rankers, "CURVE_PLAN", plan)
    for expected in (["1 of 1: tiny-capse-own-n4, seed 0"], []):
        with pytest.raises(SystemExit) as exit:
            main(["reproduce", "figure4", "--run", "--out", "mine", "--only", "tiny-capse-own-n4"])
        assert exit.value.code in (None, 0)
        assert [line for line in capsys.readouterr().err.splitlines() if "tiny" in line] == expected
    (curve,) = read_curves(tmp_path / "mine")
    assert (curve.filters, curve.recipe, [line["epoch"] for line in curve.lines]) == (4, "capse", [1, 2])
