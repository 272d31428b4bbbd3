"""New facts and entities without training again: what moves and what does not, planted places, files, mistakes."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
import torch

import capse
from capse.errors import DataError, SettingsError
from capse.graph.dataset import Graph
from capse.graph.fold_in import FoldIn, fold_in
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.models import MODELS, build_model, model_settings
from capse.triples import TripleIndex

SMALL = {"dim": 40}
COMPILED = ("capse", "scaled-capse", "convkb")  # whose gradients are compiled first
GROUPS, EACH = 4, 12


def planted(without=()):
    """People of four towns: each lives in one, speaks its language and works at one of its two firms."""
    facts = []
    for i in range(GROUPS * EACH):
        town = i % GROUPS
        if f"p{i}" not in without:
            facts += [(f"p{i}", "lives in", f"town{town}"), (f"p{i}", "speaks", f"language{town}")]
            facts += [(f"p{i}", "works at", f"firm{town}{i // GROUPS % 2}")]
    return facts


@pytest.fixture(scope="module")
def trained():
    """A model that has never seen p40 to p47, two of each town."""
    without = [f"p{i}" for i in range(40, 48)]
    return capse.fit(
        Graph.from_triples(planted(without), name="towns"),
        capse.ComplEx(dim=8, reciprocal=True),
        training=capse.Training(epochs=60, batch_size=32, learning_rate=0.1),
        validation=capse.Validation(every=0),
    )


def scores_of_all(run, labels):
    relations = run.graph.relations.labels
    return run.score([(h, r, t) for h in labels for r in relations for t in labels])


def test_new_entities_find_their_place_and_nothing_else_moves(trained):
    facts = [fact for fact in planted() if fact[0] in {f"p{i}" for i in range(40, 48)} and fact[1] != "speaks"]
    larger = trained.updated(facts)
    before = trained.graph.entities.labels
    assert set(larger.graph.entities.labels) - set(before) == {f"p{i}" for i in range(40, 48)}
    assert scores_of_all(larger, before) == scores_of_all(trained, before)  # bit by bit
    for i in range(40, 48):
        (first,) = larger.predict(relation="speaks", head=f"p{i}", top=1)
        assert first.entity == f"language{i % GROUPS}"
    (back,) = larger.predict(relation="lives in", tail="town1", top=1, new=True) or [None]
    assert back is None or back.entity not in {f"p{i}" for i in range(41, 48, 4)}  # these are known now
    assert "p40" not in trained.graph.entities
    known = larger.explain(head="p40", relation="lives in", tail="town0")
    assert (known.known, known.head_facts) == ("train", 2)


def test_steps_make_it_better_than_the_beginning(trained):
    facts = [("p40", "lives in", "town0"), ("friend", "lives in", "town0"), ("friend", "works at", "firm01")]
    begun, gone = (trained.updated(facts, FoldIn(steps=steps)) for steps in (0, 60))
    own = [("p40", "lives in", "town0"), ("friend", "works at", "firm01")]
    assert sum(gone.score(own)) > sum(begun.score(own))
    again = trained.updated(facts, FoldIn(steps=60))
    assert torch.equal(again.model.entities, gone.model.entities)


def test_a_fact_between_known_entities_is_known_and_moves_nothing(trained):
    larger = trained.updated([("p0", "speaks", "language1")])
    assert torch.equal(larger.model.entities, trained.model.entities)
    assert larger.predict(relation="speaks", head="p0", top=9, new=True)[0].entity != "language1"
    answers = {answer.entity: answer.known for answer in larger.predict(relation="speaks", head="p0", top=60)}
    assert answers["language1"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in COMPILED)) for name in MODELS.builtin]
)
def test_every_model_takes_new_entities(name):
    graph = Graph.from_triples(planted([f"p{i}" for i in range(8, 48)]))
    model = build_model(model_settings({"name": name} | SMALL), len(graph.entities), len(graph.relations))
    run = LinkPredictor(model, graph)
    larger = run.updated(
        [("p8", "lives in", "town0"), ("p9", "speaks", "p8"), ("p0", "lives in", "p9")], FoldIn(steps=3)
    )
    before = graph.entities.labels
    assert len(larger.graph.entities) == len(before) + 2
    assert scores_of_all(larger, before) == scores_of_all(run, before)
    assert np.isfinite(larger.score([("p8", "lives in", "town0"), ("p9", "speaks", "p8")])).all()


def test_rules_know_new_facts_too():
    pairs = [(f"a{i}", f"b{i}") for i in range(9)]
    run = capse.fit([(a, "over", b) for a, b in pairs] + [(b, "under", a) for a, b in pairs], capse.Rules())
    larger = run.updated([("x", "over", "y")])
    assert [answer.entity for answer in larger.predict(relation="under", head="y", top=1)] == ["x"]


def test_names_stay(trained, tmp_path):
    named = capse.Vocabulary(["a", "b"], ["Ann", "Bob"], "entity")
    relations = capse.Vocabulary(["knows"], None, "relation")
    nothing = np.empty((0, 3), np.int32)
    graph = Graph("g", named, relations, np.array([[0, 0, 1]], np.int32), nothing, nothing)
    run = LinkPredictor(build_model(capse.DistMult(dim=2), 2, 1), graph)
    larger = run.updated([("Ann", "knows", "aa")])  # a name that is known is that entity
    assert larger.graph.entities.labels == ["a", "aa", "b"]
    assert larger.graph.entities.names == ["Ann", "aa", "Bob"]


class TestMistakes:
    @pytest.mark.parametrize(
        ("facts", "message"),
        [
            ([("p0", "lives in", "town0")], r"fact 1: \(p0, lives in, town0\) is a known fact already: remove it"),
            ([("p0", "rules", "town0")], "fact 1: unknown relation 'rules'"),
            ([("p0", "lives in", "")], "an empty field|no tail|blank"),
            ([], "there is no new fact"),
            (
                pa.table({"h": ["Ada"], "r": ["speaks"], "t": ["language1"], "weight": [0.5]}),
                "facts have weights, which",
            ),
        ],
    )
    def test_facts(self, trained, facts, message):
        with pytest.raises(DataError, match=message):
            trained.updated(facts)

    def test_known_ones_may_be_left_out(self, trained):
        facts = [("p0", "lives in", "town0"), ("p0", "speaks", "language1"), ("p0", "speaks", "language1")]
        larger = trained.updated(facts, skip_known=True)
        assert len(larger.graph.train) == len(trained.graph.train) + 1

    def test_settings_and_entities_without_facts(self, trained):
        with pytest.raises(SettingsError, match="make no sense"):
            FoldIn(rate=0)
        size = len(trained.graph.entities)
        with pytest.raises(DataError, match="is in no fact"):
            fold_in(trained.model, np.array([[0, 0, size + 1]]), TripleIndex(trained.graph.train, size, 3))


class TestCommandLine:
    @pytest.fixture
    def run(self, trained, tmp_path):
        trained.save(tmp_path / "run")
        trained.folder = None
        return tmp_path / "run"

    def test_a_new_run_or_in_place(self, run, run_command, tmp_path):
        facts = tmp_path / "facts.tsv"
        facts.write_text("Ada\tlives in\ttown2\nAda\tworks at\tfirm21\n")
        status, output, _ = run_command("update", run, facts, "--out", tmp_path / "larger")
        assert (status, output) == (0, f"{tmp_path / 'larger'}: 2 facts and 1 entities added\n")
        ask = ("--relation", "speaks", "--head", "Ada", "--top", 1, "--json")
        assert run_command("predict", run, *ask)[0] == 2
        assert json.loads(run_command("predict", tmp_path / "larger", *ask)[1])[0]["entity"] == "language2"
        assert run_command("update", run, facts)[0] == 0
        assert json.loads(run_command("predict", run, *ask)[1])[0]["entity"] == "language2"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["facts.tsv", "larger", "run"]
        status, _, errors = run_command("update", run, facts)
        assert (status, "facts.tsv, line 1: (Ada, lives in, town2) is a known fact already" in errors) == (2, True)

    def test_a_wrong_file_leaves_the_run_as_it_was(self, run, run_command, tmp_path):
        content = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
        facts = tmp_path / "facts.tsv"
        facts.write_text("Ada\tlives in\ttown2\nAda\trules\tfirm21\n")
        status, output, errors = run_command("update", run, facts)
        assert (status, output, errors.count("\n")) == (2, "", 1)
        assert "line 2: unknown relation 'rules'" in errors
        assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == content
        assert sorted(path.name for path in tmp_path.iterdir()) == ["facts.tsv", "run"]

    def test_what_would_be_lost_is_refused(self, run, run_command, tmp_path):
        facts = tmp_path / "facts.csv"
        facts.write_text("head,relation,tail,weight\nAda,lives in,town2,0.5\n")
        errors = run_command("update", run, facts)[2]
        assert errors == "error: the new facts have weights, which only training heeds: leave their column out\n"
        errors = run_command("update", run, facts, "--words", facts)[2]
        assert errors == "error: --words and --encoder make vectors of texts: give the texts by --names\n"
