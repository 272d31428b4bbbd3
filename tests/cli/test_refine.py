"""capse refine, and the commands that take what it writes."""

from __future__ import annotations

import json

import numpy as np
import pytest

import capse
from capse.graph.refinement import features


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


def test_a_graph_too_dense_for_three_relations_is_refused_with_the_remedy(run, run_command, tmp_path, monkeypatch):
    monkeypatch.setattr(features, "MOST_WORK", 10)
    status, answer, error = run_command("refine", run, "--out", tmp_path / "out")
    assert (status, answer, error.count("\n")) == (2, "", 1)
    assert "the graph is too dense for motifs of three relations: set refinement.relations=2" in error
    assert not (tmp_path / "out").exists()
    assert run_command("refine", run, "--out", tmp_path / "out", "--set", "refinement.relations=2")[0] == 0


def test_a_relation_that_no_motif_was_seen_of_is_refused(run_command, tmp_path):
    graph = capse.Graph.from_triples(
        np.array([[0, 1, 1], [1, 1, 2]]), entities=["a", "b", "c"], relations=["hates", "likes"]
    )
    capse.fit(graph, capse.DistMult(dim=2), training=capse.Training(epochs=0), out=tmp_path / "base")
    status, answer, error = run_command("refine", tmp_path / "base", "--out", tmp_path / "out")
    assert (status, answer, error.count("\n")) == (2, "", 1)
    assert "no training fact has the relation 'hates', so no motif of it was ever seen: add facts of it" in error
    assert not (tmp_path / "out").exists()


def test_a_refinement_does_not_go_on_over_a_run_that_was_trained_anew(run, run_command, tmp_path):
    out = tmp_path / "refined"
    run_command("refine", run, "--out", out, "--set", "training.epochs=0")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    capse.fit("countries", capse.DistMult(dim=8), training=capse.Training(epochs=2, seed=1), out=tmp_path / "anew")
    status, answer, error = run_command("refine", tmp_path / "anew", "--out", out, "--resume")
    assert (status, answer, error.count("\n")) == (2, "", 1)
    assert "was begun over other weights than those of anew: restore the run that it was begun over" in error
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_refined_run_whose_weights_were_changed_says_so(run, run_command, tmp_path):
    out = tmp_path / "refined"
    run_command("refine", run, "--out", out, "--set", "training.epochs=0")
    content = bytearray((out / "model.safetensors").read_bytes())
    content[-3] ^= 1
    (out / "model.safetensors").write_bytes(content)
    status, answer, error = run_command("evaluate", out)
    assert (status, answer, error.count("\n")) == (2, "", 1)
    assert "model.safetensors" in error


def test_a_generator_of_another_graph_is_refused(run, run_command, tmp_path):
    (tmp_path / "train.tsv").write_text("a\tlikes\tb\nb\tlikes\tc\nc\tlikes\ta\n")
    against = ["--set", f"adversary.run={run}", "--set", "model.reciprocal=false"]
    status, answer, error = run_command(
        "train", "--model", "transe", "--data", tmp_path, "--out", tmp_path / "out", *against
    )
    assert (status, answer, error.count("\n")) == (2, "", 1)
    assert "was trained on another graph" in error
    assert "train it on the data of this run" in error
    assert not (tmp_path / "out").exists()
