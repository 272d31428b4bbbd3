"""capse evaluate: the JSON that scripts rely on, and the tables for people."""

from __future__ import annotations

import json
from functools import partial

import pytest
import torch

from capse.experiments.fit import fit
from capse.experiments.recipe import Recipe
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.writing import save_graph

POLICIES = ["optimistic", "realistic", "pessimistic", "expected"]
METRICS = ["mr", "mrr", "hits@1", "hits@3", "hits@10"]


@pytest.fixture(scope="module")
def run(planted, tmp_path_factory):
    path = tmp_path_factory.mktemp("evaluate") / "run"
    options = ["model.dim=8", "training.epochs=20", "training.device=cpu", "training.learning_rate=0.01"]
    fit(planted, Recipe.resolve(model="transe", overrides=options), out=path)
    return path


@pytest.fixture
def capse(run, run_command):
    """Runs ``capse evaluate RUN ...``."""
    return partial(run_command, "evaluate", run, "--device", "cpu")


def test_json_has_the_promised_keys(capse):
    status, output, errors = capse("--json")
    found = json.loads(output)
    assert (status, errors) == (0, "")
    assert (found["dataset"], found["split"], found["triples"], found["unseen_triples"]) == ("planted", "test", 8, 0)
    assert found["seconds"] > 0
    assert sorted(found["metrics"]) == ["both", "head", "relation", "tail"]
    for side in found["metrics"].values():
        assert sorted(side) == sorted(POLICIES)
        assert all(sorted(values) == sorted(METRICS) for values in side.values())
        assert all(0 <= value <= 1 for values in side.values() for key, value in values.items() if key != "mr")


def test_relations_can_be_left_out(capse):
    assert sorted(json.loads(capse("--json", "--no-relations")[1])["metrics"]) == ["both", "head", "tail"]
    assert "relation" in capse()[1]


def test_json_is_what_python_says(capse, run):
    found = json.loads(capse("--json")[1])
    assert found["metrics"] == LinkPredictor.load(run, "cpu").evaluate("test").metrics
    assert json.loads(capse("--json", "--split", "valid")[1])["split"] == "valid"


def test_exact_ranks_are_those_of_float64(capse, run):
    predictor = LinkPredictor.load(run, "cpu")
    predictor.model.double()
    assert json.loads(capse("--json", "--exact")[1])["metrics"] == predictor.evaluate("test").metrics


def test_raw_ranks_are_no_better_than_filtered_ones(capse):
    filtered, raw = (json.loads(capse("--json", *extra)[1]) for extra in ([], ["--raw"]))
    assert (filtered["filtered"], raw["filtered"]) == (True, False)
    assert raw["metrics"]["both"]["realistic"]["mr"] > filtered["metrics"]["both"]["realistic"]["mr"]


def test_memory_changes_nothing_but_the_size_of_chunks(capse):
    plain, bounded = (json.loads(capse("--json", *extra)[1]) for extra in ([], ["--memory", 1]))
    assert plain["metrics"] == bounded["metrics"]


def test_the_same_data_from_a_folder(capse, planted, tmp_path):
    save_graph(planted, tmp_path / "copy")
    own, given = (json.loads(capse("--json", *extra)[1]) for extra in ([], ["--data", tmp_path / "copy"]))
    assert given["dataset"] == "copy"
    assert given["metrics"] == own["metrics"]


def test_people_see_every_tie_policy(capse):
    status, output, _ = capse()
    assert status == 0
    assert all(policy in output for policy in POLICIES)
    assert all(name in output for name in ("MRR", "Hits@10", "head", "tail", "95 % bootstrap interval"))


def test_ties_are_pointed_out_in_words(run_command, planted, tmp_path):
    """A model that scores everything alike is perfect if ties count for it."""
    predictor = fit(
        planted, Recipe.resolve(model="distmult", overrides=["training.epochs=0", "model.dim=4"]), out=tmp_path / "run"
    )
    with torch.no_grad():
        predictor.model.relations.zero_()
    assert predictor.folder
    predictor.save_weights(predictor.folder)
    status, output, errors = run_command("evaluate", tmp_path / "run", "--device", "cpu", "--json")
    found = json.loads(output)["metrics"]["both"]
    assert status == 0
    assert (found["optimistic"]["mrr"], found["optimistic"]["mr"]) == (1, 1)
    assert found["pessimistic"]["mrr"] < 0.2
    assert "The optimistic figure is not to be trusted" in " ".join(errors.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--split", "tset"], "unknown split 'tset': did you mean 'test'?"),
        (["--memory", "0"], "--memory is 0: give a number of MiB, 1 or more"),
        (["--data", "nowhere"], "unknown dataset 'nowhere'"),
        (["--data", "countries"], "are no entity of the run"),
        (["--device", "tpu"], "there is no device 'tpu' here"),
    ],
)
def test_mistakes_are_said_in_one_line(capse, arguments, message):
    status, output, errors = capse(*arguments)
    assert (status, output) == (2, "")
    assert message in errors
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
