"""What if a fact were not there: training again, on the command line and in Python."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

import capse
from capse.errors import DataError, RunError
from capse.experiments.recipe import Recipe
from capse.experiments.removal import place_of, retrain_without, try_removal

TRIPLE = ("town 01", "lies in", "region 2")


@pytest.fixture(scope="module")
def run(planted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("removal") / "run"
    return capse.fit(planted, Recipe.resolve("demo-transe", overrides=["training.epochs=2"]), out=folder)


@pytest.fixture
def first(run):
    """A training fact by labels."""
    h, r, t = run.graph.train[0].tolist()
    return run.graph.entities.labels[h], run.graph.relations.labels[r], run.graph.entities.labels[t]


def test_everything_else_is_as_it_was(run, first):
    again = retrain_without(run, [first])
    assert again.graph.train.tolist() == run.graph.train[1:].tolist()
    assert (again.graph.entities, again.graph.relations) == (run.graph.entities, run.graph.relations)
    assert again.graph.valid.tolist() == run.graph.valid.tolist()
    assert again.folder.read_recipe() == run.folder.read_recipe()


def test_nothing_removed_is_the_same_run(run, planted):
    assert capse.fit(planted, Recipe.from_mapping(run.folder.read_recipe())).score([TRIPLE]) == run.score([TRIPLE])


def test_weights_stay_with_their_facts(planted):
    weighted = capse.Graph.from_triples([("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d")], weights=[1, 2, 3])
    run = capse.fit(weighted, capse.DistMult(dim=2), training=capse.Training(epochs=1))
    assert retrain_without(run, [("b", "r", "c")]).graph.weights["train"].tolist() == [1, 3]


@pytest.mark.parametrize("asked", ["head", "tail"])
def test_where_an_answer_stands_is_counted(run, asked):
    graph = run.graph
    (triple,) = run.encode([TRIPLE])
    side = 0 if asked == "head" else 2
    known = {
        row[side] for row in graph.split("all").tolist() if [row[1], row[2 - side]] == [triple[1], triple[2 - side]]
    }
    questions = np.tile(triple, (len(graph.entities), 1))
    questions[:, side] = np.arange(len(graph.entities))
    scores = run.score_ids(questions).astype(float)
    own = scores[triple[side]]
    found = place_of(run, triple, asked)
    assert found.score == pytest.approx(own, rel=1e-5)
    assert found.log_share == pytest.approx(np.log(np.exp(own) / np.exp(scores).sum()), rel=1e-4)
    rivals = [score for i, score in enumerate(scores) if i not in known | {triple[side]}]
    assert found.rank == 1 + sum(score > own for score in rivals)


def test_another_fact_is_removed_to_compare_with(run, first):
    found = try_removal(run, TRIPLE, first)
    assert (found.fact.head, found.fact.relation, found.fact.tail) == first
    assert (found.other.head, found.other.relation, found.other.tail) not in (first, TRIPLE)
    (triple,) = run.encode([TRIPLE])
    assert found.before == place_of(run, triple, "tail")
    assert found.without == place_of(retrain_without(run, [first]), triple, "tail")
    assert found.without != found.before


@pytest.mark.parametrize("facts", [[("town 01", "lies in", "region 0")], [("town 01", "lies in", "nowhere")]])
def test_what_is_no_training_fact_cannot_be_removed(run, facts):
    with pytest.raises(capse.CapseError, match=r"is no training fact|unknown entity"):
        retrain_without(run, facts)


def test_models_whose_training_is_not_known_are_refused(run):
    with pytest.raises(RunError, match="how it was trained is not known"):
        retrain_without(capse.LinkPredictor(run.model, run.graph), [TRIPLE])
    lone = capse.fit([("a", "r", "b")], capse.DistMult(dim=2), training=capse.Training(epochs=1))
    with pytest.raises(DataError, match="no training fact would be left"):
        retrain_without(lone, [("a", "r", "b")])


class TestCommand:
    @pytest.fixture
    def explain(self, run, run_command):
        head, relation, tail = TRIPLE
        asked = ("--head", head, "--relation", relation, "--tail", tail, "--device", "cpu")
        return partial(run_command, "explain", run.folder.path, *asked)

    def test_three_lines_tell_what_becomes_of_the_answer(self, explain, first):
        status, output, _ = explain("--without", *first)
        assert status == 0
        lines = output.splitlines()
        assert lines[0].endswith(": as it is")
        assert lines[1].endswith(f"without {' — '.join(first)}")
        assert lines[2].endswith(", drawn by chance")

    def test_json_has_both(self, explain, run, first):
        status, output, _ = explain("--without", *first, "--removals", "--json")
        found = json.loads(output)
        assert status == 0
        assert found["removed"] == json.loads(json.dumps(try_removal(run, TRIPLE, first).to_json()))
        assert [one["change"] for one in found["removals"]] == sorted(one["change"] for one in found["removals"])

    def test_estimates_are_said(self, explain):
        status, output, _ = explain("--removals")
        assert status == 0
        assert "by an estimate" in output

    def test_a_mistake_is_one_line(self, explain):
        status, output, errors = explain("--without", "town 01", "lies in", "region 0")
        assert (status, output) == (2, "")
        assert "(town 01, lies in, region 0) is no training fact: name one" in errors
