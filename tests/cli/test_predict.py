"""capse predict: what it prints, what it writes and what it refuses."""

from __future__ import annotations

import json
from functools import partial

import pyarrow.parquet as pq
import pytest
import torch

from capse import DistMult
from capse.graph.dataset import Graph
from capse.graph.link_prediction.predictor import LinkPredictor, save_run_graph
from capse.graph.vocabulary import Vocabulary
from capse.models import build_model
from capse.runs.atomic import write_text
from capse.runs.folder import RunFolder

GOOD, ALL = 12, 30


@pytest.fixture
def run(tmp_path):
    """DistMult of one number: score(h, r, t) = h·t. Facts join e00 to e11, whose numbers are the greatest."""
    facts = [(f"e{i:02}", "knows", f"e{j:02}") for i in range(GOOD) for j in range(GOOD) if (i + j) % 3 == 0]
    others = [(f"e{i:02}", "hates", f"e{(i + 1) % ALL:02}") for i in range(ALL)]
    labelled = Graph.from_triples([*facts[::2], *others], facts[1::2], name="small")
    entities = Vocabulary(labelled.entities.labels, [f"[Person] {i}" for i in range(ALL)], "entity")
    graph = Graph("small", entities, labelled.relations, labelled.train, labelled.valid, labelled.test)
    model = build_model(DistMult(dim=1), ALL, 2)
    with torch.no_grad():
        model.entities[:, 0] = torch.cat([4 - torch.arange(GOOD) / 8, 1 - torch.arange(ALL - GOOD) / 32])
        model.relations.fill_(1)
    folder = RunFolder(tmp_path / "run")
    save_run_graph(folder, graph)
    write_text(folder.recipe, "data: small\nmodel: {name: distmult, dim: 1}\n")
    LinkPredictor(model, graph).save_weights(folder)
    return folder


@pytest.fixture
def capse(run, run_command):
    """Runs ``capse predict RUN ...``."""
    return partial(run_command, "predict", run.path, "--device", "cpu")


def test_json_has_the_promised_keys(capse):
    status, output, errors = capse("--relation", "knows", "--head", "e00", "--top", 3, "--json")
    assert (status, errors) == (0, "")
    assert json.loads(output) == [
        {"entity": "e00", "name": "[Person] 0", "score": 16.0, "known": True},
        {"entity": "e01", "name": "[Person] 1", "score": 15.5, "known": False},
        {"entity": "e02", "name": "[Person] 2", "score": 15.0, "known": False},
    ]


def test_head_and_tail_ask_for_relations(capse):
    status, output, errors = capse("--head", "e00", "--tail", "e01", "--json")
    assert (status, errors) == (0, "")
    assert json.loads(output) == [
        {"relation": "hates", "name": "hates", "score": 15.5, "known": True},
        {"relation": "knows", "name": "knows", "score": 15.5, "known": False},
    ]
    _, table, _ = capse("--head", "e00", "--tail", "e01", "--new")
    assert "(e00, ?, e01)" in table
    assert "knows" in table
    assert "hates" not in table


def test_new_leaves_known_facts_out(capse):
    _, output, _ = capse("--relation", "knows", "--tail", "e00", "--top", 3, "--json", "--new")
    assert [row["entity"] for row in json.loads(output)] == ["e01", "e02", "e04"]


def test_people_see_a_table_with_known_facts_marked(capse):
    status, output, _ = capse("--relation", "knows", "--head", "[Person] 0", "--top", 2)
    lines = output.splitlines()
    assert status == 0
    assert lines[0].strip() == "([Person] 0, knows, ?)"
    assert ["known fact" in line for line in lines if "[Person]" in line[1:] and "e0" in line] == [True, False]
    assert "probability" not in output


def test_calibration_is_fitted_once_and_shown_from_then_on(capse, run):
    status, output, errors = capse("--calibrate")
    assert (status, errors) == (0, "")
    assert output.startswith("calibrated on 24 validation triples")
    assert run.calibration.is_file()
    _, output, _ = capse("--relation", "knows", "--head", "e00", "--top", 40, "--json")
    found = [row["probability"] for row in json.loads(output)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.5 > found[-1]
    assert "probability" in capse("--relation", "knows", "--head", "e00")[1]


def test_calibration_beside_a_query_and_as_json(capse):
    _, output, errors = capse("--calibrate", "--relation", "knows", "--head", "e00", "--json", "--top", 1)
    assert set(json.loads(output)[0]) == {"entity", "name", "score", "known", "probability"}
    assert errors.startswith("calibrated on 24")
    _, output, _ = capse("--calibrate", "--json")
    assert json.loads(output)["triples"] == 24


def test_a_damaged_calibration_is_refused_and_can_be_fitted_again(capse, run):
    run.calibration.write_text("{")
    status, output, errors = capse("--relation", "knows", "--head", "e00")
    assert (status, output) == (2, "")
    assert "calibration.json is damaged" in errors
    assert capse("--relation", "knows", "--head", "e00", "--calibrate")[0] == 0


def test_a_file_of_queries_equals_single_queries(capse, tmp_path):
    (tmp_path / "queries.tsv").write_text("head\trelation\ttail\ne00\tknows\t\n\thates\te05\n")
    answers = tmp_path / "answers.parquet"
    status, output, errors = capse("--input", tmp_path / "queries.tsv", "--output", answers, "--top", 4)
    assert (status, output) == (0, f"{answers}\n")
    assert "answered 2 queries" in errors
    rows = pq.read_table(answers).to_pylist()
    for query, part in (
        (("--relation", "knows", "--head", "e00"), rows[:4]),
        (("--relation", "hates", "--tail", "e05"), rows[4:]),
    ):
        single = json.loads(capse(*query, "--top", 4, "--json")[1])
        assert [{key: row[key] for key in ("entity", "name", "score", "known")} for row in part] == single
        assert [row["rank"] for row in part] == [1, 2, 3, 4]
        assert {row["probability"] for row in part} == {None}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--relation", "knws", "--head", "e00"], "unknown relation 'knws': did you mean 'knows'?"),
        (["--relation", "knows", "--head", "[Persn] 7"], "did you mean '[Person] 7'"),
        (["--relation", "knows", "--head", "e00", "--top", "0"], "ask for 1 or more"),
        (["--relation", "knows"], "1 of --head, --relation and --tail given: give two"),
        (["--relation", "knows", "--head", "e00", "--tail", "e01"], "3 of --head"),
        (["--head", "e00"], "give two; the third is asked for"),
        ([], "nothing is asked"),
        (["--input", "queries.tsv"], "give both --input and --output"),
        (["--input", "q.tsv", "--output", "a.parquet", "--json"], "leave out one or the other"),
        (["--input", "q.tsv", "--output", "a.parquet"], "q.tsv: no such file"),
        (["--input", "q.tsv", "--output", "a.csv"], "let it end in .parquet"),
    ],
)
def test_mistakes_are_said_in_one_line(capse, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, output, errors = capse(*arguments)
    assert (status, output) == (2, "")
    assert message in errors
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1


def test_a_run_without_validation_triples_cannot_be_calibrated(tmp_path, run_command):
    graph = Graph.from_triples([("a", "r", "b"), ("b", "r", "c")], name="bare")
    folder = RunFolder(tmp_path / "bare")
    save_run_graph(folder, graph)
    write_text(folder.recipe, "model: {name: distmult, dim: 8}\n")
    LinkPredictor(build_model(DistMult(dim=8), 3, 1), graph).save_weights(folder)
    status, _, errors = run_command("predict", folder.path, "--calibrate")
    assert status == 2
    assert "0 validation triples" in errors
