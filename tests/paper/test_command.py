"""capse reproduce: JSON for scripts, tables for people, figures and a report, and training what is missing."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from capse.runs.manifest import write_manifest
from capse_paper.findings.rows import ROWS
from capse_paper.plans import graphs
from capse_paper.plans.graphs import Experiment

QUICK = ("model.dim=6", "training.epochs=1", "validation.triples=20")
TINY = (
    Experiment("transe-tiny", "TransE", "countries", "own", "demo-transe", QUICK),
    Experiment(
        "capse-tiny",
        "CapsE",
        "countries",
        "own",
        "demo-capse",
        (*QUICK, "model.filters=3", "model.capsule_dim=2"),
        start="transe-tiny",
    ),
)


@pytest.fixture(autouse=True, scope="module")
def in_one_thread(one_thread):
    """Tensors this small are done before a second thread has woken up."""


@pytest.fixture
def work(tmp_path, monkeypatch):
    """An empty folder of results, and no data."""
    (tmp_path / "results" / "runs").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CAPSE_DATA", raising=False)
    monkeypatch.setenv("CAPSE_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def capse(work, run_command):
    """Runs ``capse reproduce ...``."""
    return partial(run_command, "reproduce")


def test_rows_as_json(capse):
    status, output, errors = capse("table2", "--json")
    rows = json.loads(output)
    assert (status, errors) == (0, "")
    assert len(rows) == 44
    assert all(row["ours"] is None and row["runs"] == [] for row in rows)
    assert next(row["paper"]["mrr"] for row in rows if row["model"] == "CapsE") == 0.415


def test_people_see_every_tie_policy_beside_the_papers_figure(capse):
    status, output, _ = capse("table3")
    assert status == 0
    assert all(word in output for word in ("paper", "optimistic", "realistic", "pessimistic", "seeds", "53.33"))


@pytest.mark.parametrize("figure", ["figure2", "figure3"])
def test_a_figure_is_written_and_its_files_are_named(capse, work, figure):
    status, output, _ = capse(figure)
    assert status == 0
    assert output.splitlines()[-2:] == [f"results/figures/{figure}.png", f"results/figures/{figure}.svg"]
    status, output, errors = capse(figure, "--json", "--out", "elsewhere")
    assert json.loads(output)[0]["model"] == "CapsE"
    assert errors.split() == [f"elsewhere/figures/{figure}.png", f"elsewhere/figures/{figure}.svg"]
    assert (work / "elsewhere" / "figures" / f"{figure}.svg").is_file()


def test_all_has_everything(capse, work):
    status, output, errors = capse("all", "--json")
    assert status == 0
    shown = [part for part in ROWS if part != "ablation"]  # which is not the paper's, and of which nothing is recorded
    assert list(json.loads(output)) == [*shown, "claims", "targets", "grids"]
    assert errors.splitlines()[-1] == "results/report.html"
    assert (work / "results" / "report.html").stat().st_size > 10_000


def test_claims(capse):
    claims = json.loads(capse("claims", "--json")[1])
    assert [claim["claim"] for claim in claims] == ["many", "one", "symmetric", "rare", "rare-others", "routing"]
    assert {claim["holds"] for claim in claims} == {None}


@pytest.mark.usefixtures("real_data")
def test_table_1_counts_the_data(capse, monkeypatch, real_data):
    monkeypatch.setenv("CAPSE_DATA", str(real_data))
    rows = json.loads(capse("table1", "--json", "--results", "nowhere")[1])  # it needs no recorded run
    assert [row["ours"]["train"] for row in rows] == [86_835, 272_115]


def test_run_trains_what_is_missing_and_shows_it(capse, work, monkeypatch):
    monkeypatch.setattr(graphs, "PLAN", TINY)
    status, output, errors = capse("table2", "--run", "--out", "mine", "--seeds", "0,3", "--json")
    assert status == 0
    assert "1 of 4: mine/runs/transe-tiny/seed-0" in errors
    row = json.loads(output)[-1]
    assert (row["model"], row["dataset"], row["paper"]) == ("CapsE", "countries", {})
    assert row["ours"]["realistic"]["mrr"]["seeds"] == [0, 3]
    assert row["runs"] == ["runs/capse-tiny/seed-0", "runs/capse-tiny/seed-3"]
    status, again, errors = capse("table2", "--run", "--out", "mine", "--seeds", "0,3", "--json")
    assert (status, again, errors) == (0, output, "")
    assert list((work / "results" / "runs").iterdir()) == []


def test_only_some_experiments(capse, work, monkeypatch):
    monkeypatch.setattr(graphs, "PLAN", TINY)
    assert capse("table2", "--run", "--only", "transe-tiny", "--seeds", "1")[0] == 0
    assert [path.name for path in (work / "results" / "runs").iterdir()] == ["transe-tiny"]


def test_a_seed_that_is_named_twice_counts_once(capse, monkeypatch):
    monkeypatch.setattr(graphs, "PLAN", TINY)
    status, output, errors = capse("table2", "--run", "--only", "transe-tiny", "--seeds", "0,0", "--json")
    assert status == 0
    assert "1 of 1: results/runs/transe-tiny/seed-0" in errors
    rows = json.loads(output)
    assert [row["runs"] for row in rows if row["dataset"] == "countries"] == [["runs/transe-tiny/seed-0"], []]


def test_a_folder_with_a_hash_in_its_name(capse, work, monkeypatch):
    monkeypatch.setattr(graphs, "PLAN", TINY)
    status, _, errors = capse("table2", "--run", "--seeds", "0", "--out", "a #b", "--json")
    assert status == 0
    assert "start from a #b/runs/transe-tiny/seed-0" in errors
    assert [path.name for path in work.iterdir() if path.name.startswith("a")] == ["a #b"]
    assert "departs" not in errors


def test_runs_that_are_not_the_plans_are_pointed_out_in_a_line_each(capse, monkeypatch):
    monkeypatch.setattr(graphs, "PLAN", TINY)
    assert capse("table2", "--run", "--seeds", "0,1")[0] == 0
    recipe = Path("results/runs/capse-tiny/seed-1/recipe.yaml")
    recipe.write_text(recipe.read_text().replace("transe-tiny/seed-1", "transe-tiny/seed-0"))
    write_manifest(recipe.parent)
    line = (
        "runs/capse-tiny/seed-1 departs from the plan: "
        "start.run: results/runs/transe-tiny/seed-0, not transe-tiny/seed-1"
    )
    status, output, errors = capse("table2", "--json")
    assert (status, errors) == (0, line + "\n")
    assert len(json.loads(output)[-1]["runs"]) == 2  # it counts all the same
    status, output, errors = capse("table2")
    assert (status, output.splitlines()[-1], errors) == (0, line, "")


@pytest.mark.parametrize("name", ["results.json", "evaluation.json"])
def test_an_incomplete_record_is_named_in_one_line(capse, monkeypatch, name):
    monkeypatch.setattr(graphs, "PLAN", TINY)
    assert capse("table2", "--run", "--seeds", "0", "--only", "transe-tiny")[0] == 0
    Path("results/runs/transe-tiny/seed-0", name).write_text('{"metrics": {}}')
    status, output, errors = capse("all")
    assert (status, output) == (2, "")
    assert errors.startswith(f"error: results/runs/transe-tiny/seed-0/{name} is incomplete: it has no ")
    assert errors.count("\n") == 1


def test_stopping_is_quiet(capse, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(graphs, "PLAN", TINY)
    monkeypatch.setattr("capse_paper.jobs.training.fit", interrupted)
    status, output, errors = capse("table2", "--run")
    assert (status, output) == (130, "")
    assert "the same command goes on from here" in errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table4x"], "unknown table or figure 'table4x': did you mean"),
        (["table2", "--results", "nowhere"], "there are no recorded runs in nowhere/runs: call this in a checkout"),
        (
            ["table1"],
            "not here to be counted: wn18rr, fb15k-237: call 'capse data get wn18rr', 'capse data get fb15k-237'",
        ),
        (["table2", "--seeds", "1"], "--seeds, --only, --minutes and --records are for --run"),
        (["table2", "--run", "--seeds", "1,x"], "--seeds is '1,x': write whole numbers with commas between"),
        (["table2", "--run", "--only", "transe"], "unknown experiment 'transe'"),
        (["table3", "--run", "--only", "distmult-wn18rr"], "table3 does not show distmult-wn18rr, which --only names"),
        (["table2", "--run", "--only", "transe-wn18rr"], "transe-wn18rr needs glove/"),
    ],
)
def test_mistakes_are_said_in_one_line_and_nothing_is_written(capse, work, arguments, message):
    before = sorted(work.rglob("*"))
    status, output, errors = capse(*arguments)
    assert (status, output) == (2, "")
    assert message in errors
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    assert sorted(work.rglob("*")) == before
