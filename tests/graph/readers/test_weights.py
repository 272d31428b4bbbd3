"""Weights of triples: read from every format, kept with the graph, and refused where they are none."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import capse
from capse.errors import DataError
from capse.graph.dataset import Graph, load_graph, read_graph
from capse.graph.iris import with_local_labels
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.splits import split_graph
from capse.graph.writing import save_graph

ROWS = [("b", "r", "c", 2.0), ("a", "r", "b", 0.5), ("c", "s", "a", 0.0), ("a", "r", "b", 0.75)]
WEIGHTS = {("a", "r", "b"): 0.75, ("b", "r", "c"): 2.0, ("c", "s", "a"): 0.0}  # of the same triple twice, the larger


def tsv(path):
    path.write_text("head\trelation\ttail\tconfidence\n" + "".join("\t".join(map(str, row)) + "\n" for row in ROWS))


def csv(path):
    path.write_text("Weight;Target;Source;Edge\n" + "".join(f"{w};{t};{h};{r}\n" for h, r, t, w in ROWS))


def parquet(path):
    pq.write_table(
        pa.table(dict(zip(("head", "relation", "tail", "weight"), zip(*ROWS, strict=True), strict=True))), path
    )


def json_lines(path):
    rows = [{"weight": w, "head": h, "relation": r, "tail": t} for h, r, t, w in ROWS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


FILES = {"train.tsv": tsv, "train.csv": csv, "train.parquet": parquet, "train.jsonl": json_lines}


def weights_of(graph):
    entities, relations = graph.entities.labels, graph.relations.labels
    named = [(entities[h], relations[r], entities[t]) for h, r, t in graph.train.tolist()]
    return dict(zip(named, graph.weights["train"].tolist(), strict=True))


@pytest.mark.parametrize("name", FILES)
def test_a_column_of_that_name_holds_weights(tmp_path, name):
    FILES[name](tmp_path / name)
    assert weights_of(load_graph(tmp_path)) == WEIGHTS


def test_a_column_can_be_chosen_by_number_or_name_or_none(tmp_path):
    plain, named = tmp_path / "plain.tsv", tmp_path / "named.parquet"
    plain.write_text("".join("\t".join(map(str, row)) + "\n" for row in ROWS))
    pq.write_table(
        pa.table(dict(zip(("head", "relation", "tail", "share"), zip(*ROWS, strict=True), strict=True))), named
    )
    assert weights_of(read_graph("g", {"train": [plain]}, layout={"weight": "4"})) == WEIGHTS
    assert weights_of(read_graph("g", {"train": [named]}, layout={"weight": "share"})) == WEIGHTS
    tsv(tmp_path / "train.tsv")
    assert read_graph("g", {"train": [tmp_path / "train.tsv"]}, layout={"weight": "none"}).weights == {}


def test_a_file_without_weights_beside_one_with_them_weighs_one(tmp_path):
    tsv(tmp_path / "more.tsv")
    (tmp_path / "plain.tsv").write_text("x\tr\ty\n")
    graph = read_graph("g", {"train": [tmp_path / "more.tsv", tmp_path / "plain.tsv"]})
    assert weights_of(graph) == WEIGHTS | {("x", "r", "y"): 1.0}


class Frame:
    """What is asked of a data frame."""

    def __init__(self, columns):
        self.columns = list(columns)
        self.values = columns

    def __getitem__(self, name):
        return np.array(self.values[name])


def test_triples_in_memory_have_weights_too():
    columns = dict(zip(("head", "relation", "tail", "weight"), zip(*ROWS, strict=True), strict=True))
    assert weights_of(Graph.from_triples(pa.table(columns))) == WEIGHTS
    assert weights_of(Graph.from_triples(Frame(columns))) == WEIGHTS
    assert weights_of(Graph.from_triples([row[:3] for row in ROWS], weights=[row[3] for row in ROWS])) == WEIGHTS
    ids = Graph.from_triples(
        np.array([[1, 0, 2], [0, 0, 1]]), entities=["a", "b", "c"], relations=["r"], weights=[2, 0.75]
    )
    assert weights_of(ids) == {("b", "r", "c"): 2.0, ("a", "r", "b"): 0.75}


@pytest.mark.parametrize("bad", ["nan", "-0.5", "inf", "much", ""])
@pytest.mark.parametrize("name", ["train.tsv", "train.jsonl"])
def test_what_is_no_weight_is_said_with_its_line(tmp_path, name, bad):
    if name.endswith("tsv"):
        (tmp_path / name).write_text(f"head\trelation\ttail\tweight\na\tr\tb\t1\nb\tr\tc\t{bad}\n")
    else:
        rows = [{"head": "a", "relation": "r", "tail": "b", "weight": w} for w in (1, 1, bad)]
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match=r"line 3: .*no weight") as error:
        load_graph(tmp_path)
    assert "from 0 up" in str(error.value.remedy)


@pytest.mark.parametrize(
    ("weights", "said"), [([1.0, np.nan, 1.0, 1.0], "triple 2"), ([1.0], "1 weights of 4"), (["x"] * 4, "not numbers")]
)
def test_weights_in_memory_are_checked(weights, said):
    with pytest.raises(DataError, match=said):
        Graph.from_triples([row[:3] for row in ROWS], weights=weights)


def test_weights_stay_with_their_triples(tmp_path):
    """Through splitting, relabelling, writing, training, saving and updating."""
    rng = np.random.default_rng(0)
    facts = sorted({(f"http://x/{h}", "http://x/r", f"http://x/{t}") for h, t in rng.integers(0, 30, (200, 2))})
    given = dict(zip(facts, rng.uniform(0, 3, len(facts)).astype(np.float32).tolist(), strict=True))
    graph = Graph.from_triples(facts, weights=list(given.values()))
    parts = split_graph(graph, 0.1, 0.2)
    labels = parts.entities.labels
    for split in ("train", "valid", "test"):
        triples = [(labels[h], "http://x/r", labels[t]) for h, _, t in parts.split(split).tolist()]
        assert parts.weights[split].tolist() == [given[triple] for triple in triples]
    local, _ = with_local_labels(graph)
    assert weights_of(local) == {tuple(x.removeprefix("http://x/") for x in triple): w for triple, w in given.items()}
    save_graph(parts, tmp_path / "saved")
    again = load_graph(tmp_path / "saved")
    assert all((again.weights[split] == parts.weights[split]).all() for split in parts.weights)
    run = capse.fit(parts, capse.DistMult(dim=4), training=capse.Training(epochs=1), out=tmp_path / "run")
    larger = LinkPredictor.load(tmp_path / "run").updated([("new", "http://x/r", facts[0][0])])
    old = weights_of(parts)
    assert weights_of(larger.graph) == old | {("new", "http://x/r", facts[0][0]): 1.0}
    metrics = run.evaluate("test").weighted["both"]["realistic"]["mrr"]
    result = run.evaluate("test")
    both = np.stack([1 / result.heads.realistic, 1 / result.tails.realistic]).mean(0)
    assert metrics == pytest.approx(np.average(both, weights=parts.weights["test"]), rel=1e-6)
    assert run.evaluate("test", data=None).to_json()["weighted"]
