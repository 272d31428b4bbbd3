"""Asking among some: who they are, what they answer, and ranks by brute force."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from capse import DistMult
from capse.errors import DataError, SettingsError, UnknownNameError
from capse.evaluation.ranks import NonFiniteScoreError
from capse.graph.dataset import Graph
from capse.graph.link_prediction.candidates import Listed, Sampled, Seen
from capse.graph.link_prediction.evaluation import evaluate
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.link_prediction.restricted_ranking import rank_among
from capse.models import build_model
from capse.triples import HEAD, TAIL


@pytest.fixture(scope="module")
def run():
    """A random graph in which some things are cities and some are countries; scores with ties."""
    rng = np.random.default_rng(0)
    facts = {(f"e{h:02}", f"r{r}", f"e{t:02}") for h, r, t in rng.integers(0, (20, 3, 20), (120, 3))}
    kinds = [(f"e{i:02}", "is a", "city" if i % 3 else "country") for i in range(20)]
    rows = sorted(facts)
    rng.shuffle(rows)
    graph = Graph.from_triples([*map(tuple, rows[30:]), *kinds], map(tuple, rows[:10]), map(tuple, rows[10:30]))
    model = build_model(DistMult(dim=2), len(graph.entities), len(graph.relations))
    with torch.no_grad():
        model.entities.copy_(torch.from_numpy(rng.integers(-2, 3, model.entities.shape)))
        model.relations.copy_(torch.from_numpy(rng.integers(1, 3, model.relations.shape)))
    return LinkPredictor(model, graph)


@pytest.fixture(scope="module")
def saved(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("candidates") / "run"
    run.save(path)
    return path


def kinds_of(graph):
    return {
        "list": Listed.of_names(graph, ["e03", "e07", "e11", "city"]),
        "type": Listed.of_type(graph, "is a", "country"),
        "seen": Seen(graph),
        "sampled": Sampled(graph, 5),
    }


@pytest.mark.parametrize("filtered", [True, False])
@pytest.mark.parametrize("kind", ["list", "type", "seen", "sampled"])
def test_ranks_are_those_of_brute_force(run, kind, filtered, monkeypatch):
    monkeypatch.setattr("capse.graph.link_prediction.restricted_ranking.MOST_CPU_MEMORY", 1000)
    graph, among = run.graph, kinds_of(run.graph)[kind]
    known = graph.known if filtered else None
    for free, ranks in zip((HEAD, TAIL), rank_among(run.model, graph.test, known, among), strict=True):
        for row, triple in enumerate(graph.test.tolist()):

            def score(entity, triple=triple, free=free):
                asked = [entity if side == free else part for side, part in enumerate(triple)]
                return float(run.score_ids(np.array([asked]))[0]), bool(graph.known.contains(*np.array([asked]).T)[0])

            true, _ = score(triple[free])
            rivals = [score(i) for i in among.of(*triple, free).tolist() if i != triple[free]]
            rivals = [value for value, fact in rivals if not (filtered and fact)]
            assert ranks.greater[row] == sum(value > true for value in rivals)
            assert ranks.equal[row] == sum(value == true for value in rivals)
            assert ranks.candidates[row] == len(rivals) + 1


def test_everybody_as_candidates_gives_the_ranks_among_all(run):
    everybody = Listed(range(len(run.graph.entities)), "everybody")
    result = run.evaluate("test", among=everybody)
    assert result.restricted["metrics"] == {side: result.metrics[side] for side in ("both", "head", "tail")}
    assert result.restricted["adjusted"] == result.adjusted
    assert result.restricted["intervals"] == result.intervals
    assert set(result.metrics) <= {"both", "head", "tail", "relation"}
    assert run.evaluate("test").restricted == {}
    assert "restricted" not in run.evaluate("test").to_json()


def test_who_may_answer(run):
    graph = run.graph
    countries = [f"e{i:02}" for i in range(0, 20, 3)]
    assert [graph.entities.labels[i] for i in Listed.of_type(graph, "is a", "country").ids] == countries
    tails = sorted({int(t) for _, r, t in graph.train if r == 1})
    assert Seen(graph).of(0, 1, -1, TAIL).tolist() == tails
    drawn = Sampled(graph, 5)
    assert np.array_equal(drawn.of(3, 1, 9, TAIL), drawn.of(3, 1, 4, TAIL))  # the answer plays no part
    assert len(set(drawn.of(3, 1, 9, HEAD).tolist())) == 5


@pytest.mark.parametrize("new", [False, True])
def test_predictions_are_the_best_among_candidates(run, new):
    for among in kinds_of(run.graph).values():
        some = run.predict(relation="r1", head="e02", top=25, new=new, among=among)
        every = run.predict(relation="r1", head="e02", top=25, new=new)
        ids = run.graph.entities.id("e02"), run.graph.relations.id("r1"), -1
        allowed = {run.graph.entities.labels[i] for i in among.of(*ids, TAIL)}
        assert [answer for answer in every if answer.entity in allowed] == some


def test_mistakes(run, tmp_path):
    with pytest.raises(UnknownNameError, match="unknown entity 'Atlantis'"):
        Listed.of_names(run.graph, ["e01", "Atlantis"])
    assert Listed.of_names(run.graph, ["e01", "Atlantis"], skip_unknown=True).skipped == 1
    with pytest.raises(SettingsError, match="there is no candidate among a list"):
        Listed.of_names(run.graph, ["Atlantis"], skip_unknown=True)
    with pytest.raises(SettingsError, match=r"no training triple says \(\?, is a, e01\)"):
        Listed.of_type(run.graph, "is a", "e01")
    with pytest.raises(SettingsError, match="a relation is asked for"):
        run.predict(head="e01", tail="e02", among=Seen(run.graph))
    with pytest.raises(SettingsError, match="99 candidates are to be drawn of 22"):
        Sampled(run.graph, 99)
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(DataError, match="no names in it"):
        Listed.of_file(run.graph, tmp_path / "empty.txt")


def test_a_score_that_is_no_number_is_named(run):
    class Broken:
        device = torch.device("cpu")

        def score_tails(self, heads, relations):
            return torch.full((len(heads), 22), float("nan"))

        def score_heads(self, relations, tails):
            return torch.full((len(tails), 22), float("nan"))

    with pytest.raises(NonFiniteScoreError):
        evaluate(Broken(), run.graph, among=Seen(run.graph))
    with pytest.raises(NonFiniteScoreError):
        rank_among(Broken(), run.graph.test, None, Seen(run.graph))


class TestCommandLine:
    def test_a_list_a_type_and_a_range(self, saved, run_command, tmp_path):
        names = tmp_path / "names.txt"
        names.write_text("e03\ne07\nAtlantis\n")
        ask = ("predict", saved, "--relation", "r1", "--head", "e02", "--json")
        status, _, errors = run_command(*ask, "--among", names)
        assert (status, "unknown entity 'Atlantis'" in errors) == (2, True)
        status, output, errors = run_command(*ask, "--among", names, "--skip-unknown")
        assert {answer["entity"] for answer in json.loads(output)} == {"e03", "e07"}
        assert "names that the graph lacks, left out: 1" in errors
        status, output, _ = run_command(*ask, "--among", "is a=country", "--top", 3)
        assert all(int(answer["entity"][1:]) % 3 == 0 for answer in json.loads(output))
        assert run_command(*ask, "--among", "seen")[0] == 0
        status, _, errors = run_command(*ask, "--among", "nobody")
        assert (status, errors.count("\n")) == (2, 1)
        queries = tmp_path / "queries.tsv"
        queries.write_text("e02\t\te03\n")
        written = ("--input", queries, "--output", tmp_path / "out.parquet")
        status, _, errors = run_command("predict", saved, *written, "--among", "seen")
        assert (status, "asks for relations" in errors, (tmp_path / "out.parquet").exists()) == (2, True, False)

    def test_restricted_ranks_have_a_name_of_their_own(self, saved, run_command):
        status, output, _ = run_command("evaluate", saved, "--json", "--among", "sampled:4")
        found = json.loads(output)
        assert status == 0
        assert found["restricted"]["among"] == "4 drawn at random"
        assert found["restricted"]["mean_candidates"] <= 5
        assert all(len(metrics) == 5 for metrics in found["metrics"]["both"].values())
        assert set(found["adjusted"]["both"]["realistic"]) == {"amri", "adjusted_mrr"}
        assert set(found["macro"]["tail"]["expected"]) == set(found["metrics"]["tail"]["expected"])
        output = run_command("evaluate", saved, "--among", "seen")[1]
        assert "against chance: adjusted mean rank index" in output
        assert "not to be compared with ranks among" in " ".join(output.split())
