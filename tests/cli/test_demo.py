import re
import time

import numba
import pytest
import torch
from typer.testing import CliRunner

from capse.cli import demo
from capse.errors import RunError
from capse.experiments.fit import fit
from capse.experiments.recipe import Recipe
from capse.graph.dataset import load_graph
from capse.reports.examples import draw_questions

POLICIES = ("optimistic", "expected", "realistic", "pessimistic")


def command(out):
    result = CliRunner().invoke(demo.app, ["--out", str(out)])
    if isinstance(result.exception, RunError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """The demo with small models and two epochs."""
    for name in ("transe", "capse"):
        options = ["model.dim=6", "training.epochs=2", "validation.triples=20"]
        options += ["model.filters=3", "model.capsule_dim=2"] if name == "capse" else []
        path = tmp_path / f"{name}.yaml"
        path.write_text(Recipe.resolve(f"demo-{name}", overrides=options).to_yaml())
        monkeypatch.setitem(demo.RECIPES, name, str(path))


def check(output, out):
    for model in ("TransE", "CapsE"):
        assert all(f"{model}, {policy}" in output for policy in POLICIES)
        assert f"{model}: realistic MRR, 95 % bootstrap interval" in output
    assert len(re.findall(r"\?\n    (right|wrong): .+; held out: .+, rank \d", output)) == 5
    page = (out / "report.html").read_text(encoding="utf-8")
    assert all(policy in page for policy in POLICIES)
    assert "Which country borders " in page


def test_demo(quick, tmp_path):
    out = tmp_path / "demo"
    before = torch.get_num_threads(), numba.get_num_threads()
    check(command(out).stdout, out)
    assert (torch.get_num_threads(), numba.get_num_threads()) == before


def test_demo_again_uses_what_is_there(quick, tmp_path):
    out = tmp_path / "demo"
    first = command(out)
    trained = (out / "capse" / "results.json").read_text()
    (out / "report.html").unlink()
    second = command(out)
    assert second.stdout == first.stdout
    assert "used as it is" in second.stderr
    assert (out / "capse" / "results.json").read_text() == trained
    check(second.stdout, out)


def test_demo_does_not_touch_a_run_of_another_recipe(quick, tmp_path):
    out = tmp_path / "demo"
    fit("countries", Recipe.resolve("demo-transe", overrides=["training.epochs=0"]), out=out / "transe")
    with pytest.raises(RunError, match="begun with other settings"):
        command(out)


def test_stopping_is_quiet_and_going_on_works(quick, tmp_path, monkeypatch):
    out = tmp_path / "demo"

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("capse.training.loop.Trainer.run", interrupted)
        result = CliRunner().invoke(demo.app, ["--out", str(out)])
    assert result.exit_code == 130
    assert "the same command goes on" in result.stderr
    check(command(out).stdout, out)


def test_every_question_is_worded():
    graph = load_graph("countries")
    asked = [graph.relations.labels[graph.test[row, 1]] for row in draw_questions(graph)]
    assert sorted(asked) == sorted(demo.WORDING)


@pytest.mark.slow
def test_the_whole_demo(tmp_path):
    out = tmp_path / "demo"
    started = time.monotonic()
    check(command(out).stdout, out)
    assert time.monotonic() - started < 180
