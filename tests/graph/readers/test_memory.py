"""Graphs made of what Python users hold: arrays, data frames, tables, iterators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import capse
from capse.errors import CapseError, DataError, SettingsError
from capse.graph.dataset import Graph, as_graph
from capse.graph.vocabulary import Vocabulary

ROWS = [("be", "borders", "nl"), ("nl", "borders", "de"), ("be", "in", "europe")]


def labelled(graph: Graph, split: str = "train") -> set[tuple[str, str, str]]:
    e, r = graph.entities.labels, graph.relations.labels
    return {(e[head], r[relation], e[tail]) for head, relation, tail in graph.split(split)}


def frame(rows: list[Any], columns: list[str]) -> Any:
    return pytest.importorskip("pandas").DataFrame(rows, columns=columns)


class Polars:
    """A data frame that is not pandas': names of columns, and columns by name."""

    columns = ("object", "subject", "predicate")

    def __getitem__(self, name: str) -> list[str]:
        return [row[("subject", "predicate", "object").index(name)] for row in ROWS]


FORMS: dict[str, Callable[[], Any]] = {
    "tuples": lambda: ROWS,
    "lists": lambda: [list(row) for row in ROWS],
    "generator": lambda: (row for row in ROWS),
    "mappings": lambda: [dict(zip(("head", "relation", "tail"), row, strict=True)) for row in ROWS],
    "text array": lambda: np.array(ROWS),
    "object array": lambda: np.array(ROWS, object),
    "data frame by position": lambda: frame(ROWS, ["x", "y", "z"]),
    "data frame by name": lambda: frame([(r, t, "?", h) for h, r, t in ROWS], ["relation", "tail", "note", "head"]),
    "values of a data frame": lambda: frame(ROWS, ["x", "y", "z"]).values,
    "another data frame": Polars,
    "Arrow table": lambda: pa.table(list(zip(*ROWS, strict=True)), names=["h", "r", "t"]),
    "record batch": lambda: pa.table(list(zip(*ROWS, strict=True)), names=["h", "r", "t"]).to_batches()[0],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_graph(form: str) -> None:
    assert labelled(Graph.from_triples(FORMS[form]())) == set(ROWS)
    graph = Graph.from_triples(ROWS, FORMS[form](), FORMS[form]())
    assert labelled(graph, "valid") == labelled(graph, "test") == set(ROWS)
    assert labelled(as_graph(FORMS[form]())) == set(ROWS)


def test_numbers_are_labels() -> None:
    for numbers in ([[1, 0, 20]], np.array([[1, 0, 20]]), torch.tensor([[1, 0, 20]]), frame([[1, 0, 20]], list("abc"))):
        assert labelled(Graph.from_triples(numbers)) == {("1", "0", "20")}


def test_ids_are_places_in_the_given_labels() -> None:
    ids = np.array([[2, 0, 1], [0, 1, 2]], np.uint8)
    given = {"entities": ["nl", "europe", "be"], "relations": ["in", "borders"]}
    for triples in (ids, ids.tolist(), torch.from_numpy(ids)):
        graph = Graph.from_triples(triples, test=ids[:1], **given)  # type: ignore[arg-type]
        assert labelled(graph) == {("be", "in", "europe"), ("nl", "borders", "be")}
        assert labelled(graph, "test") == {("be", "in", "europe")}
    entities = Vocabulary(["a", "b", "c"], ["A", "B", "C"], "entity")
    assert Graph.from_triples(ids, entities=entities, relations=["r", "s"]).entities is entities


def test_entities_without_a_triple_are_kept() -> None:
    assert len(Graph.from_triples([(0, 0, 1)], entities=["a", "b", "c"], relations=["r"]).entities) == 3


@pytest.mark.parametrize(
    ("triples", "entities", "message"),
    [
        ([(0, 0, 2)], ["a", "b"], r"train, triple 1: \[0, 0, 2\] is not within 2 entities and 1 relations"),
        ([(0, 0, -1)], ["a", "b"], "not within 2 entities"),
        ([("a", "r", "b")], ["a", "b"], "train: not three whole numbers each"),
        ([(0, 0)], ["a", "b"], "train: not three whole numbers each"),
        ([(0, 0, 1), (0, 0)], ["a", "b"], "train: not three whole numbers each"),
        ([(0, 0, 1)], ["a", "a"], "the labels of entity ids must be distinct"),
        ([(0, 0, 1)], ["a", ""], "the labels of entity ids cannot be ''"),
        ([(0, 0, 1)], ["a", 3], "the labels of entity ids cannot be '3'"),
    ],
)
def test_ids_that_are_none(triples: Any, entities: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Graph.from_triples(triples, entities=entities, relations=["r"])


def test_ids_need_both_lists_of_labels() -> None:
    with pytest.raises(SettingsError, match="give both, or neither"):
        Graph.from_triples([(0, 0, 1)], entities=["a", "b"])


def test_splits_can_be_drawn() -> None:
    rows = [(str(h), "less_than", str(t)) for h in range(6) for t in range(h + 1, 6)]
    graph = Graph.from_triples(rows, valid=0.2, test=0.2)
    assert (len(graph.train), len(graph.valid), len(graph.test)) == (9, 3, 3)
    assert labelled(graph, "all") == set(rows)
    other, same = (Graph.from_triples(np.array(rows), valid=0.2, test=0.2, seed=seed) for seed in (1, 0))
    assert labelled(other, "test") != labelled(graph, "test")
    assert labelled(same, "test") == labelled(graph, "test")
    assert len(Graph.from_triples(rows, valid=0.2).test) == 0
    with pytest.raises(SettingsError, match="one split is given and the other is a share"):
        Graph.from_triples(rows, valid=0.2, test=rows[:1])
    with pytest.raises(SettingsError, match="allow unseen"):
        Graph.from_triples([("a", "r", "b"), ("c", "r", "d")], test=0.5)
    assert len(Graph.from_triples([("a", "r", "b"), ("c", "r", "d")], test=0.5, allow_unseen=True).test) == 1


@pytest.mark.parametrize("nothing", [[], (), iter([]), np.empty((0, 3)), pa.table({"h": [], "r": [], "t": []})])
def test_nothing_to_train_on_is_an_error_and_nothing_to_test_on_is_not(nothing: Any) -> None:
    with pytest.raises(DataError, match="train: no triples in it"):
        Graph.from_triples(nothing)
    assert len(Graph.from_triples(ROWS, valid=nothing, test=nothing).test) == 0


@pytest.mark.parametrize(
    ("triples", "message"),
    [
        (["abc"], "train, triple 1: 'abc' is not a triple"),
        ([b"abc"], "is not a triple"),
        ([{"a", "b", "c"}], "is not a triple"),
        ([7], "train, triple 1: '7' is not a triple"),
        ([{"from": "a"}], "is not a triple"),
        ("abc", "'abc' is not a collection of triples"),
        (7, "'7' is not a collection of triples"),
        (None, "'None' is not a collection of triples"),
        ([("a", "b")], "triple 1: 2 columns instead of 3"),
        ([("a", "b", "c", "d")], "triple 1: 4 columns instead of 3"),
        ([("a", "r", "b"), ("a", None, "b")], "triple 2: no relation"),
        ([("a", "r", float("nan"))], "triple 1: no tail"),
        ([("a", "", "b")], "triple 1: an empty field"),
        ([("a", "r\n", "b")], "a tab or a line break"),
        ([("a", 1.5, "b")], "triple 1: 1.5 is not a label"),
        ([("a", True, "b")], "triple 1: True is not a label"),
        (np.array([[0.5, 1.0, 2.0]]), "triple 1: 0.5 is not a label"),
        (np.array(["a", "r", "b"]), r"an array of shape \(3\) instead of \(n, 3\)"),
        (np.array([["a", "r"]]), "2 columns instead of 3"),
        (np.array(7), r"an array of shape \(\)"),
        (pa.table({"a": ["x"], "b": ["y"]}), "2 columns instead of 3"),
        (pa.table({"h": ["x"], "r": ["y"], "t": [None]}), "triple 1: no tail"),
        (pa.table({"h": ["x"], "r": [0.5], "t": ["y"]}), "0.5 is not a label"),
    ],
)
def test_what_is_not_triples_is_said_in_a_line(triples: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        Graph.from_triples(triples)
    assert "\n" not in str(error.value)
    assert error.value.remedy


def test_missing_values_of_a_data_frame_are_named() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(DataError, match="train, triple 2: no tail"):
        Graph.from_triples(frame([("a", "r", "b"), ("a", "r", None)], ["h", "r", "t"]))
    with pytest.raises(DataError, match="train, triple 1: no head"):
        Graph.from_triples(frame([(pandas.NA, "r", "b")], ["h", "r", "t"]).astype("string"))
    with pytest.raises(DataError, match="train, triple 1: no head"):
        Graph.from_triples(pandas.DataFrame({"h": [float("nan"), 1.0], "r": ["r", "r"], "t": ["x", "y"]}))


def test_a_run_takes_and_scores_the_same_forms(tmp_path: Any) -> None:
    run = capse.fit(frame(ROWS, ["head", "relation", "tail"]), "demo-transe", out=tmp_path / "run")
    scores = run.score(ROWS)
    assert run.score(frame(ROWS, ["head", "relation", "tail"])) == run.score(np.array(ROWS)) == scores
    nothing: Any
    for nothing in ([], np.empty((0, 3)), iter([])):
        assert run.score(nothing) == []
    for wrong, message in ((["abc"], "triple 1: 'abc' is not a triple"), ([("be", "in")], "2 columns instead of 3")):
        with pytest.raises(CapseError, match=message):
            run.score(wrong)
