"""capse explain: what it prints and what it refuses."""

from __future__ import annotations

import json
from functools import partial

import pytest

import capse
from capse.experiments.recipe import Recipe


@pytest.fixture(scope="module")
def run(planted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("explain") / "run"
    capse.fit(planted, Recipe.resolve("demo-transe", overrides=["training.epochs=1"]), out=folder)
    return folder


@pytest.fixture
def explain(run, run_command):
    """Runs ``capse explain RUN ...``."""
    return partial(run_command, "explain", run, "--device", "cpu")


def test_people_read_lines(explain):
    status, output, errors = explain("--head", "town 64", "--relation", "trades at", "--tail", "market 0", "--most", 2)
    assert (status, errors) == (0, "")
    lines = output.splitlines()
    assert lines[0] == "town 64 — trades at — market 0"
    assert "a known fact (valid)" in lines
    assert "town 64: 2 training facts" in lines
    dimensions = [line for line in lines if "  dimension " in line]
    assert sum(", as in town " in line for line in dimensions) == 3
    assert sum(" — trades at — " in line for line in lines if line not in dimensions) == 3
    assert "no proof" in lines[-1]


def test_json_is_the_explanation(explain, run):
    status, output, _ = explain("--head", "town 01", "--relation", "lies in", "--tail", "region 2", "--json")
    expected = capse.LinkPredictor.load(run, "cpu").explain(head="town 01", relation="lies in", tail="region 2")
    assert (status, json.loads(output)) == (0, expected.to_json())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--head", "twn 01", "--relation", "lies in", "--tail", "region 2"], "did you mean 'town 01'"),
        (["--head", "town 01", "--relation", "lies", "--tail", "region 2"], "unknown relation 'lies'"),
        (["--head", "town 01", "--relation", "lies in"], "--tail"),
    ],
)
def test_mistakes_are_said(explain, arguments, message):
    status, output, errors = explain(*arguments)
    assert (status, output) == (2, "")
    assert message in errors
