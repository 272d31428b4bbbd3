"""The best heads and tails: planted answers, ties, known facts, and files of queries."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

from capse import DistMult
from capse.errors import CapseError, DataError, SettingsError, UnknownNameError
from capse.evaluation.ranks import NonFiniteScoreError
from capse.graph.dataset import Graph
from capse.graph.link_prediction import completion
from capse.graph.link_prediction.calibration import Calibration
from capse.graph.link_prediction.completion import SCHEMA, Prediction, predict_file
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.link_prediction.ranking import BYTES_PER_SCORE
from capse.graph.vocabulary import Vocabulary
from capse.models import MODELS, build_model, model_settings
from capse.runs.folder import RunFolder

ENTITIES, RELATIONS = 12, 3


class TableModel(nn.Module):
    """A score for each triple of the world, read from a table (E, R, E); it remembers what it was asked."""

    device = torch.device("cpu")

    def __init__(self, table):
        super().__init__()
        self.table = torch.as_tensor(table, dtype=torch.float32)
        self.asked, self.largest = [], 0

    def score_tails(self, heads, relations):
        self.asked += [(h, r, None) for h, r in zip(heads.tolist(), relations.tolist(), strict=True)]
        self.largest = max(self.largest, len(heads))
        return self.table[heads, relations]

    def score_heads(self, relations, tails):
        self.asked += [(None, r, t) for r, t in zip(relations.tolist(), tails.tolist(), strict=True)]
        self.largest = max(self.largest, len(tails))
        return self.table[:, relations, tails].T

    def score_relations(self, heads, tails):
        self.asked += [(h, None, t) for h, t in zip(heads.tolist(), tails.tolist(), strict=True)]
        return self.table[heads, :, tails]


def table_model(table):
    return TableModel(table)


@pytest.fixture
def graph():
    """Entities e00 to e11; e00 has the known tails e03 (train), e05 (valid) and e07 (test) under r0."""
    ring = [(f"e{i:02}", "r1", f"e{(i + 1) % ENTITIES:02}") for i in range(ENTITIES)]
    return Graph.from_triples(
        [*ring, ("e00", "r0", "e03"), ("e01", "r2", "e02")], [("e00", "r0", "e05")], [("e00", "r0", "e07")]
    )


@pytest.fixture
def predictor(graph):
    table = np.random.default_rng(0).integers(0, 5, (ENTITIES, RELATIONS, ENTITIES))
    return LinkPredictor(table_model(table), graph)


def expected(predictor, head, relation, tail, new=False):
    """All answers by a plain sort: (entity, score, known)."""
    labels, facts = predictor.graph.entities.labels, set(map(tuple, predictor.graph.split("all").tolist()))
    rows = []
    for i, label in enumerate(labels):
        triple = (i if head is None else head, relation, i if tail is None else tail)
        rows.append((label, float(predictor.model.table[triple]), triple in facts))
    return sorted((row for row in rows if not (new and row[2])), key=lambda row: (-row[1], row[0]))


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("top", [1, 3, ENTITIES, 1000])
def test_predictions_are_the_sorted_scores_with_ties_by_label(predictor, top, new):
    for e in range(ENTITIES):
        for r in range(RELATIONS):
            tails = predictor.predict(relation=f"r{r}", head=f"e{e:02}", top=top, new=new)
            heads = predictor.predict(relation=f"r{r}", tail=f"e{e:02}", top=top, new=new)
            assert [(p.entity, p.score, p.known) for p in tails] == expected(predictor, e, r, None, new)[:top]
            assert [(p.entity, p.score, p.known) for p in heads] == expected(predictor, None, r, e, new)[:top]


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("top", [1, 2, 1000])
def test_relations_are_the_sorted_scores_with_ties_by_label(predictor, top, new):
    facts = set(map(tuple, predictor.graph.split("all").tolist()))
    for h, t in itertools.product(range(ENTITIES), range(ENTITIES)):
        rows = [(f"r{r}", float(predictor.model.table[h, r, t]), (h, r, t) in facts) for r in range(RELATIONS)]
        expected = sorted((row for row in rows if not (new and row[2])), key=lambda row: (-row[1], row[0]))
        found = predictor.predict(head=f"e{h:02}", tail=f"e{t:02}", top=top, new=new)
        assert [(p.relation, p.score, p.known) for p in found] == expected[:top]


def test_inverse_relations_are_never_an_answer(planted):
    """With relation vectors of 1 the inverses, of 9, would come first."""
    model = build_model(DistMult(dim=2, reciprocal=True), len(planted.entities), len(planted.relations))
    with torch.no_grad():
        model.entities.fill_(1)
        model.relations.fill_(9)[: len(planted.relations)] = 1
    found = LinkPredictor(model, planted).predict(head="region 3", tail="region 4", top=100)
    assert [p.relation for p in found] == list(planted.relations.labels)
    assert {p.score for p in found} == {2.0}


def test_known_facts_of_every_split_are_marked(predictor):
    found = predictor.predict(relation="r0", head="e00", top=ENTITIES)
    assert {p.entity for p in found if p.known} == {"e03", "e05", "e07"}


def test_leaving_known_facts_out_may_leave_nothing():
    graph = Graph.from_triples([("a", "r", "a"), ("a", "r", "b"), ("b", "s", "a")])
    assert LinkPredictor(table_model(np.ones((2, 2, 2))), graph).predict(relation="r", head="a", new=True) == []


def test_names_are_understood_and_given(graph):
    entities = Vocabulary(graph.entities.labels, [f"Entity {i}" for i in range(ENTITIES)], "entity")
    named = Graph("named", entities, graph.relations, graph.train, graph.valid, graph.test)
    table = np.zeros((ENTITIES, RELATIONS, ENTITIES))
    table[4, 2, 9] = 1
    best = LinkPredictor(table_model(table), named).predict(relation="r2", head="Entity 4", top=1)
    assert best == [Prediction("e09", "Entity 9", 1.0, False)]
    assert best[0].to_json() == {"entity": "e09", "name": "Entity 9", "score": 1.0, "known": False}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_predicts_what_it_scores(planted, name):
    options = {"conve": {"height": 2, "filters": 2}, "capse": {"filters": 2}, "convkb": {"filters": 2}}
    settings = model_settings({"name": name, "dim": 8, **options.get(name, {})})
    predictor = LinkPredictor(build_model(settings, len(planted.entities), len(planted.relations)), planted)
    best = predictor.predict(relation="lies in", tail="region 3", top=5)
    assert [p.score for p in best] == sorted((p.score for p in best), reverse=True)
    if not settings.reciprocal:
        scores = predictor.score([(p.entity, "lies in", "region 3") for p in best])
        assert [p.score for p in best] == pytest.approx(scores, rel=1e-4, abs=1e-6)


def test_queries_that_make_no_sense(predictor):
    with pytest.raises(SettingsError, match="two of head, relation and tail"):
        predictor.predict(relation="r0")
    with pytest.raises(SettingsError, match="two of head, relation and tail"):
        predictor.predict(relation="r0", head="e00", tail="e01")
    with pytest.raises(SettingsError, match="the 0 best"):
        predictor.predict(relation="r0", head="e00", top=0)
    with pytest.raises(UnknownNameError, match="unknown entity 'e0O': did you mean 'e0"):
        predictor.predict(relation="r0", head="e0O")
    with pytest.raises(UnknownNameError, match="unknown relation"):
        predictor.predict(relation="r9", head="e00")


@pytest.mark.parametrize("score", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_are_refused(predictor, score):
    predictor.model.table[2, 1, 6] = score
    with pytest.raises(NonFiniteScoreError, match=r"\(e02, r1, e06\) as -?(nan|inf).*diverged"):
        predictor.predict(relation="r1", tail="e06")
    with pytest.raises(NonFiniteScoreError, match=r"\(e02, r1, e06\) as -?(nan|inf).*diverged"):
        predictor.predict(head="e02", tail="e06")


QUERIES = [
    ("e00", "r0", ""),
    ("", "r1", "e04"),
    ("e07", "r2", ""),
    ("", "r1", "e04"),
    ("e00", "r0", ""),
    ("", "r0", "e00"),
    ("e00", "", "e05"),
]


def write_queries(path, rows):
    if path.suffix == ".parquet":
        columns = zip(*([value or None for value in row] for row in rows), strict=True)
        pq.write_table(pa.table(dict(zip(("head", "relation", "tail"), columns, strict=True))), path)
    elif path.suffix == ".jsonl":
        keyed = [dict(zip(("head", "relation", "tail"), row, strict=True)) for row in rows]
        path.write_text("".join(json.dumps({k: v for k, v in row.items() if v}) + "\n" for row in keyed))
    else:
        separator = "," if path.suffix == ".csv" else "\t"
        path.write_text("".join(separator.join(row) + "\n" for row in rows))
    return path


def single_answers(predictor, rows, **options):
    for head, relation, tail in rows:
        if not relation:
            for rank, p in enumerate(predictor.predict(head=head, tail=tail, **options), start=1):
                yield (head, p.relation, tail, rank, None, p.name, p.score, p.known, None)
            continue
        found = predictor.predict(relation=relation, head=head or None, tail=tail or None, **options)
        for rank, p in enumerate(found, start=1):
            yield (head or None, relation, tail or None, rank, p.entity, p.name, p.score, p.known, p.probability)


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("name", ["q.tsv", "q.csv", "q.jsonl", "q.parquet"])
def test_a_file_gets_the_answers_of_its_queries_in_order(predictor, tmp_path, name, new):
    out = tmp_path / "deeper" / "answers.parquet"
    assert predict_file(predictor, write_queries(tmp_path / name, QUERIES), out, top=4, new=new) == len(QUERIES)
    table = pq.read_table(out)
    assert table.schema.equals(SCHEMA)
    rows = [tuple(row.values()) for row in table.to_pylist()]
    assert rows == list(single_answers(predictor, QUERIES, top=4, new=new))


def test_a_distinct_query_is_scored_once(predictor, tmp_path):
    told = []
    path = write_queries(tmp_path / "q.tsv", QUERIES * 5)
    predict_file(predictor, path, tmp_path / "a.parquet", progress=lambda done, total: told.append((done, total)))
    assert sorted(map(str, predictor.model.asked)) == sorted(
        map(str, [(0, 0, None), (None, 1, 4), (7, 2, None), (None, 0, 0), (0, None, 5)])
    )
    assert told[-1] == (35, 35)
    assert told == sorted(told)


@pytest.mark.parametrize(("predictions", "rows"), [(1, 1), (7, 2), (25, 3), (10**6, 10**6)])
def test_answers_do_not_depend_on_how_they_are_chunked(predictor, tmp_path, monkeypatch, predictions, rows):
    path = write_queries(tmp_path / "q.tsv", QUERIES)
    predict_file(predictor, path, tmp_path / "whole.parquet", top=3)
    monkeypatch.setattr(completion, "_MOST_PREDICTIONS", predictions)
    monkeypatch.setattr(completion, "MOST_CPU_MEMORY", rows * ENTITIES * BYTES_PER_SCORE)
    predictor.model.largest = 0
    predict_file(predictor, path, tmp_path / "parts.parquet", top=3)
    assert pq.read_table(tmp_path / "parts.parquet").equals(pq.read_table(tmp_path / "whole.parquet"))
    assert predictor.model.largest <= rows


def test_headers_and_extra_columns_are_understood(predictor, tmp_path):
    plain = write_queries(tmp_path / "plain.tsv", [("e00", "r0", ""), ("e01", "r1", "")])
    predict_file(predictor, plain, tmp_path / "plain.parquet")
    headed = tmp_path / "headed.csv"
    headed.write_text('since,Relation,Head\n1990,r0,"e00"\n1991,r1,e01\n')
    predict_file(predictor, headed, tmp_path / "headed.parquet")
    assert pq.read_table(tmp_path / "headed.parquet").equals(pq.read_table(tmp_path / "plain.parquet"))


@pytest.mark.parametrize(
    ("name", "text"), [("q.csv", "tail,head\ne05,e00\n"), ("q.jsonl", '{"head": "e00", "tail": "e05"}\n')]
)
def test_a_relation_is_asked_for_by_two_columns(predictor, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    predict_file(predictor, tmp_path / name, tmp_path / "answers.parquet")
    rows = [tuple(row.values()) for row in pq.read_table(tmp_path / "answers.parquet").to_pylist()]
    assert rows == list(single_answers(predictor, [("e00", "", "e05")]))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("q.tsv", "e00\tr0\t\ne00\tr0\te01\n", "q.tsv, line 2: head, relation and tail, so nothing is asked"),
        ("q.tsv", "e00\tr0\t\n\tr0\t\n", "q.tsv, line 2: no head and no tail"),
        ("q.tsv", "e00\t\t\n", "q.tsv, line 1: no relation and no tail"),
        ("q.tsv", "e00\tr0\t\n\n", "q.tsv, line 2: a blank line"),
        ("q.tsv", "e00\tr0\t\ne0O\tr0\t\n", "q.tsv, line 2: unknown entity 'e0O': did you mean"),
        ("q.csv", 'e00,r0,\n"e01,r0,\n', "q.csv, line 2: "),
        ("q.jsonl", '{"head": "e00", "relation": "r0"}\nnonsense\n', "q.jsonl, line 2: not JSON"),
        ("q.jsonl", '["e00", null, null]\n', "q.jsonl, line 1: no relation and no tail"),
        ("q.jsonl", '"e00"\n', 'q.jsonl, line 1: "e00" is not a triple'),
        ("q.jsonl", '{"head": 1.5, "relation": "r0"}\n', "q.jsonl, line 1: 1.5 is not a label"),
        ("q.parquet", "nonsense", "q.parquet: "),
        ("q.doc", "", "q.doc: not a known format"),
    ],
)
def test_a_bad_file_is_named_and_nothing_is_written(predictor, tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError) as error:
        predict_file(predictor, tmp_path / name, tmp_path / "a.parquet")
    assert message in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("text", ["", "head\trelation\n"])
def test_no_queries_get_no_answers(predictor, tmp_path, text):
    (tmp_path / "q.tsv").write_text(text)
    assert predict_file(predictor, tmp_path / "q.tsv", tmp_path / "a.parquet") == 0
    assert pq.read_table(tmp_path / "a.parquet").equals(SCHEMA.empty_table())


def test_a_bad_row_of_a_parquet_file_is_named(predictor, tmp_path):
    write_queries(tmp_path / "q.parquet", [("e00", "r0", ""), ("e00", "r0", "e01")])
    with pytest.raises(DataError, match=r"q.parquet, row 2: head, relation and tail, so nothing is asked"):
        predict_file(predictor, tmp_path / "q.parquet", tmp_path / "a.parquet")


def test_a_failure_half_way_leaves_no_output(predictor, tmp_path, monkeypatch):
    monkeypatch.setattr(completion, "_MOST_PREDICTIONS", 1)
    predictor.model.table[7, 2, 3] = np.nan
    path = write_queries(tmp_path / "q.tsv", QUERIES)
    with pytest.raises(CapseError, match="nan"):
        predict_file(predictor, path, tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == [path]


def test_the_output_must_be_named_as_parquet(predictor, tmp_path):
    path = write_queries(tmp_path / "q.tsv", QUERIES)
    with pytest.raises(SettingsError, match=r"let it end in .parquet"):
        predict_file(predictor, path, tmp_path / "a.csv")
    with pytest.raises(DataError, match="no such file"):
        predict_file(predictor, tmp_path / "none.tsv", tmp_path / "a.parquet")


def test_a_calibrated_run_gives_probabilities(predictor, tmp_path):
    calibration = Calibration(2.0, -3.0, triples=10, seed=0, brier_score=0.1, expected_calibration_error=0.1)
    predictor.folder = RunFolder(tmp_path)
    calibration.save(predictor.folder)
    found = predictor.predict(relation="r0", head="e00", top=ENTITIES)
    assert [p.probability for p in found] == pytest.approx([1 / (1 + np.exp(3 - 2 * p.score)) for p in found])
    assert found[0].to_json()["probability"] == found[0].probability
    path = write_queries(tmp_path / "q.tsv", QUERIES)
    predict_file(predictor, path, tmp_path / "a.parquet")
    rows = [tuple(row.values()) for row in pq.read_table(tmp_path / "a.parquet").to_pylist()]
    assert rows == list(single_answers(predictor, QUERIES))
