"""Bad input to capse tune: one line, and nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from capse.experiments.fit import fit
from capse.experiments.recipe import Recipe
from tests.cli.tune.processes import DRAWN, GRID

pytestmark = pytest.mark.usefixtures("one_thread")


def bad(*arguments, content=GRID % 2):
    return content, ["grid.yaml", "--data", "planted", "--out", "out", *arguments]


BAD = {
    "jobs without a grid": (
        (GRID, ["--data", "planted", "--out", "out", "--jobs", "2"]),
        "--storage are about a grid: name",
    ),
    "no data": ((GRID % 2, ["grid.yaml", "--out", "out"]), "no data is named: give --data"),
    "an unknown grid": ((GRID, ["capse-papr", "--out", "out"]), "unknown grid 'capse-papr': did you mean"),
    "no YAML": (bad(content="grid: {"), "grid.yaml, line 1 is not valid YAML"),
    "an unknown recipe": (bad(content="recipe: transse"), "unknown recipe 'transse': did you mean 'transe'"),
    "an unknown key": (bad(content="grid: {model.filter: [1]}"), "did you mean 'model.filters'?"),
    "an empty list": (bad(content="grid: {model.filters: []}"), "grid: model.filters is []: write a list"),
    "a wrong value": (bad(content="grid: {model.filters: [50, many]}"), "model.filters is 'many': write a whole"),
    "a wrong option": (bad("--set", "training.epoch=3"), "did you mean 'training.epochs'?"),
    "no jobs": (bad("--jobs", "0"), "--jobs is 0: choose 1 or more"),
    "an unknown sampler": (bad("--sampler", "tpr"), "search.sampler is 'tpr': choose from grid, random, tpe"),
    "no number of trials": (bad("--sampler", "tpe"), "nothing says how many trials to draw with tpe"),
    "a storage of a grid": (bad("--storage", "sqlite:///x.db"), "search.storage is given for a grid"),
    "a storage that is no URL": (bad(*DRAWN, "--storage", "x.db"), "search.storage is 'x.db': write a URL"),
    "a storage that is not there": (
        bad(*DRAWN, "--storage", "postgresql://me:secret@127.0.0.1:1/x"),
        "cannot use the storage postgresql://me@127.0.0.1:1/x (connection failed",
    ),
    "another grid": (
        (GRID % 3, ["grid.yaml", "--data", "planted", "--out", "study", "--resume"]),
        "the study in study was begun with another recipe: resume it with",
    ),
    "somebody's folder": (bad("--out", "planted"), "planted is not empty and not a study"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_nothing_written(capse, work, case):
    (content, arguments), message = BAD[case]
    if "study" in arguments:
        capse("quick.yaml", "--data", "planted", "--out", "study")
    Path("grid.yaml").write_text(content)
    before = {path: path.stat().st_mtime_ns for path in work.rglob("*")}
    status, output, errors = capse(*arguments)
    assert (status, output) == (2, "")
    (line,) = errors.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert "secret" not in line
    assert {path: path.stat().st_mtime_ns for path in work.rglob("*")} == before, "something was written"


def test_a_start_that_fits_no_trial_is_refused_before_the_first(capse, work, planted):
    fit(planted, Recipe.resolve(model="transe", overrides=["model.dim=3", "training.epochs=0"]), out="start")
    status, _, errors = capse("quick.yaml", "--data", "planted", "--out", "study", "--set", "start.run=start")
    assert (status, errors) == (2, "error: model.dim is 4, and 3 in start: give both the same model.dim\n")
    assert not Path("study").exists()
