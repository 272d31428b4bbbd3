"""capse refine, and the commands that take what it writes."""

from __future__ import annotations

import json

import pytest

import capse


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "base"
    capse.fit("countries", capse.DistMult(dim=8), training=capse.Training(epochs=2), out=out)
    return out


def test_a_refined_run_is_evaluated_asked_explained_and_reported(run, run_command, tmp_path):
    out = tmp_path / "refined"
    changes = ["--set", "training.epochs=1", "--set", "refinement.relations=2"]
    status, answer, progress = run_command("refine", run, "--out", out, *changes)
    assert (status, answer.strip()) == (0, str(out))
    assert "the run itself has a validation MRR of" in progress
    status, answer, _ = run_command("evaluate", out, "--json")
    assert (status, json.loads(answer)["triples"]) == (0, 311)
    status, answer, _ = run_command("predict", out, "--relation", "borders", "--head", "Kenya", "--json", "--top", "1")
    best = json.loads(answer)[0]["name"]
    status, answer, _ = run_command("explain", out, "--head", "Kenya", "--relation", "borders", "--tail", best)
    assert status == 0
    assert "the run that was refined scores it" in answer
    assert f"so Kenya borders {best}" in answer
    status, _, _ = run_command("report", run, out, "--out", tmp_path / "report.html")
    assert status == 0


def test_it_goes_on_where_it_was_finished(run, run_command, tmp_path):
    out = tmp_path / "refined"
    run_command("refine", run, "--out", out, "--set", "training.epochs=0")
    status, _, error = run_command("refine", run, "--out", out)
    assert (status, error.count("\n")) == (2, 1)
    assert "continue it with --resume" in error
    assert run_command("refine", run, "--out", out, "--resume")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "there is no run in nowhere"),
        (["RUN", "--set", "refinement.top=0"], "refinement.top is 0: choose 1 or more"),
        (["RUN", "--recipe", "nonsense"], "unknown refinement 'nonsense'"),
    ],
)
def test_bad_input_is_said_in_one_line_and_nothing_is_written(run, run_command, tmp_path, arguments, said):
    arguments = [str(run) if argument == "RUN" else argument for argument in arguments]
    status, answer, error = run_command("refine", *arguments, "--out", tmp_path / "out")
    assert (status, answer, error.count("\n")) == (2, "", 1)
    assert said in error
    assert not (tmp_path / "out").exists()
