"""Is this fact true: hard negatives by definition, planted thresholds, files, the command line."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

import capse
from capse import DistMult
from capse.errors import DataError, RunError, SettingsError
from capse.graph.dataset import Graph
from capse.graph.link_prediction.classification import Classifier, fit_classifier, judged_scores
from capse.graph.link_prediction.hard_negatives import hard_negatives
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.models import build_model
from capse.runs.folder import RunFolder

RELATIONS = 3


def graph_of(facts, **splits):
    return Graph.from_triples([(f"e{h:02}", f"r{r}", f"e{t:02}") for h, r, t in facts], **splits, name="made")


def test_hard_negatives_are_other_answers_that_make_no_known_triple():
    rng = np.random.default_rng(0)
    graph = graph_of({(h, r, t) for h, r, t in rng.integers(0, (12, 3, 12), (70, 3)).tolist()})
    false, found = hard_negatives(graph, graph.train, graph.known)
    assert found.sum() > 60
    assert not graph.known.contains(*false[found].T).any()
    for true, made in zip(graph.train[found].tolist(), false[found].tolist(), strict=True):
        (side,) = (place for place in range(3) if true[place] != made[place])
        assert side != 1
        assert made[side] in graph.train[graph.train[:, 1] == true[1], side]
    changed = (false[found] != graph.train[found]).argmax(axis=1)
    assert {0, 2} == set(changed.tolist())
    again = hard_negatives(graph, graph.train, graph.known)
    assert np.array_equal(again.triples, false)
    assert not np.array_equal(hard_negatives(graph, graph.train, graph.known, seed=1).triples, false)


def test_a_triple_that_nothing_can_replace_is_left_out():
    graph = graph_of([(0, 0, 1), (2, 1, 3), (4, 1, 5)])
    false, found = hard_negatives(graph, graph.train, graph.known)
    assert found.tolist() == [False, True, True]
    assert np.array_equal(false[0], graph.train[0])


@pytest.fixture
def run(tmp_path):
    """A run whose relations need thresholds of their own, each 2 above the one before."""
    rng = np.random.default_rng(0)
    every = [
        (h, r, t) for h in range(24) for r in range(RELATIONS) for t in range(24, 48) if (h * 7 + t * 5 + r) % 4 == 0
    ]
    rng.shuffle(every)
    rows = [(f"e{h:02}", f"r{r}", f"e{t:02}") for h, r, t in every]
    graph = Graph.from_triples(rows[120:], valid=rows[:80], test=rows[80:120], name="made")
    model = build_model(DistMult(dim=RELATIONS), len(graph.entities), RELATIONS)
    predictor = LinkPredictor(model, graph)
    known = set(map(tuple, graph.split("all").tolist()))

    def score(self, heads, relations, tails):
        ids = zip(heads.tolist(), relations.tolist(), tails.tolist(), strict=True)
        noise = [
            ((h * 31 + t * 17) % 100) / 60 for h, _, t in zip(heads.tolist(), relations, tails.tolist(), strict=True)
        ]
        true = torch.tensor([(h, r, t) in known for h, r, t in ids], dtype=torch.float32)
        return true + relations * 2.0 + torch.tensor(noise)

    model.score_triples = score.__get__(model)  # type: ignore[method-assign]
    predictor.save(tmp_path / "run")
    return predictor


def test_thresholds_of_relations_are_found(run):
    chosen = run.classifier()
    assert np.diff(chosen.thresholds) == pytest.approx([2, 2], abs=0.7)
    test = run.graph.test.astype(np.int64)
    false, found = hard_negatives(run.graph, test, run.graph.known, seed=5)
    labels = run.graph.entities.labels, run.graph.relations.labels

    def named(rows):
        return [(labels[0][h], labels[1][r], labels[0][t]) for h, r, t in rows.tolist()]

    judged = run.judge(named(test), named(false[found]))
    assert judged.by_relation.accuracy > judged.one_threshold.accuracy + 0.1
    assert Classifier.load(run.folder) == chosen
    said = run.classify(named(test[:3]))
    assert [verdict.known for verdict in said] == [True] * 3
    assert [(verdict.head, verdict.relation, verdict.tail) for verdict in said] == named(test[:3])
    again = fit_classifier(run, false[found][:30])
    assert again.triples == 80
    assert run.classifier(named(false[found][:30])).negatives == "given triples"


def test_reciprocal_models_are_judged_by_both_directions():
    graph = graph_of([(h, 0, h + 5) for h in range(5)])
    model = build_model(DistMult(dim=4, reciprocal=True), len(graph.entities), 1, seed=3)
    run = LinkPredictor(model, graph)
    heads, relations, tails = torch.from_numpy(graph.train.astype(np.int64)).T
    with torch.no_grad():
        both = model.score_triples(heads, relations, tails) + model.score_triples(tails, relations + 1, heads)
    assert judged_scores(run, graph.train) == pytest.approx((both / 2).double().numpy())


def test_too_little_to_choose_on(tmp_path):
    graph = graph_of([(h, 0, h + 5) for h in range(5)], valid=[("e00", "r0", "e06")])
    model = build_model(DistMult(dim=2), len(graph.entities), 1)
    with pytest.raises(SettingsError, match="too few to choose on"):
        LinkPredictor(model, graph).classifier()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("classified") / "run"
    capse.fit("countries", capse.DistMult(dim=16), training=capse.Training(epochs=3), out=path)
    return path


class TestCommandLine:
    @pytest.fixture
    def files(self, tmp_path, run_command):
        graph = capse.load_graph("countries")
        labels, relations = graph.entities.labels, graph.relations.labels
        lines = [f"{labels[h]}\t{relations[r]}\t{labels[t]}\n" for h, r, t in graph.test.tolist()]
        (tmp_path / "test.tsv").write_text("".join(lines))
        status, output, _ = run_command("data", "negatives", "countries", "--out", tmp_path / "false.tsv")
        assert (status, "false triples, for 311 of test" in output) == (0, True)
        return tmp_path / "test.tsv", tmp_path / "false.tsv"

    def test_scores_are_those_of_python(self, trained, files, run_command):
        status, output, _ = run_command("score", trained, files[0], "--json")
        rows: list[dict[str, Any]] = json.loads(output)
        assert (status, len(rows)) == (0, 311)
        first = (rows[0]["head"], rows[0]["relation"], rows[0]["tail"])
        run = capse.load(trained)
        assert isinstance(run, LinkPredictor)
        assert rows[0]["score"] == run.score([first])[0]
        assert all(row["known"] for row in rows)
        assert "311 triples" in run_command("score", trained, files[0])[1]

    def test_judging_reports_the_mix_and_keeps_the_choice(self, trained, files, run_command, tmp_path):
        arguments = ("score", trained, files[0], "--classify", "--negatives", files[1])
        status, output, _ = run_command(*arguments, "--json", "--plot", tmp_path / "reliability.svg")
        found = json.loads(output)
        assert (status, len(found["triples"])) == (0, 311)
        assert found["chosen"]["on"].startswith("hard negatives")
        judged = found["judgements"]
        assert judged["true"] == 311
        assert judged["auc"] > 0.6
        assert {"accuracy", "f1", "precision", "recall"} == set(judged["by_relation"])
        assert (tmp_path / "reliability.svg").read_text().startswith("<?xml")
        assert RunFolder(trained).classifier.is_file()
        status, output, _ = run_command(*arguments)
        assert "a threshold for each relation: accuracy" in output
        assert "on this mix" in output

    def test_known_facts_among_the_false_triples_are_said(self, trained, files, run_command, tmp_path):
        wrong = tmp_path / "wrong.tsv"
        wrong.write_text("Kenya\tborders\tUganda\nKenya\tborders\tFrance\n")
        status, _, errors = run_command("score", trained, files[0], "--classify", "--negatives", wrong)
        assert status == 0
        assert errors == f"warning: 1 of the 2 triples of {wrong} are known facts, and count as false\n"

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--classify", "--negatives", "TRUE"], "311 triples are given as true and as false"),
            (["--plot", "x.svg"], "give --classify"),
            (["--classify", "--plot", "x.svg"], "give --negatives"),
            (["--classify", "--negatives", "FALSE", "--plot", "x.gif"], "is no name for a picture"),
            (["--classify", "--negatives", "WRONG"], "line 2: unknown entity 'Atlantis'"),
            (["--classify", "--valid-negatives", "gone.tsv"], "gone.tsv"),
        ],
    )
    def test_mistakes_are_said_in_one_line(self, trained, files, run_command, tmp_path, options, message):
        wrong = tmp_path / "wrong.tsv"
        wrong.write_text("Kenya\tborders\tUganda\nAtlantis\tborders\tKenya\n")
        named = {"TRUE": files[0], "FALSE": files[1], "WRONG": wrong}
        status, output, errors = run_command("score", trained, files[0], *(named.get(o, o) for o in options))
        said = [line for line in errors.splitlines() if not line.startswith("warning: ")]
        assert (status, output, len(said)) == (2, "", 1)
        assert message in said[0]


def test_a_damaged_choice_is_refused(trained):
    run = capse.load(trained)
    assert isinstance(run, LinkPredictor)
    run.classifier()
    assert run.folder is not None
    text = run.folder.classifier.read_text()
    run.folder.classifier.write_text(text[: len(text) // 2])
    with pytest.raises(RunError):
        capse.load(trained)
    run.folder.classifier.unlink()
    assert isinstance(capse.load(trained), LinkPredictor)  # it is chosen again when it is needed
    run.classifier()


def test_a_file_without_triples(trained, tmp_path):
    (tmp_path / "empty.tsv").write_text("")
    run = capse.load(trained)
    assert isinstance(run, LinkPredictor)
    with pytest.raises(DataError, match="no triples in it"):
        run.classify(tmp_path / "empty.tsv")
