import gzip
import random

import numpy as np
import pytest

from capse.errors import DataError, UnknownNameError
from capse.graph.benchmarks import BENCHMARKS
from capse.graph.dataset import Graph, load_graph
from capse.graph.vocabulary import Vocabulary

TRAIN = [("be", "borders", "nl"), ("nl", "borders", "de"), ("be", "in", "europe")]
TEST = [("de", "in", "europe")]


def write(path, rows):
    path.write_text("".join("\t".join(row) + "\n" for row in rows))


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "train.tsv", TRAIN)
    write(tmp_path / "test.txt", TEST)
    return tmp_path


def labelled(graph, split):
    return [
        (graph.entities.labels[h], graph.relations.labels[r], graph.entities.labels[t])
        for h, r, t in graph.split(split)
    ]


def test_a_folder(folder):
    graph = load_graph(folder)
    assert graph.name == folder.name
    assert graph.entities.labels == ["be", "de", "europe", "nl"]
    assert graph.relations.labels == ["borders", "in"]
    assert sorted(labelled(graph, "train")) == sorted(TRAIN)
    assert labelled(graph, "test") == TEST
    assert graph.valid.shape == (0, 3)
    assert {graph.split(split).dtype for split in ("train", "valid", "test", "all")} == {np.dtype(np.int32)}
    assert len(graph.split("all")) == len(graph.known) == 4
    assert len(graph.known_in_train) == 3
    assert graph.entities.names is None


def test_ids_and_triples_do_not_depend_on_the_order_of_lines(tmp_path):
    rows = [(f"e{i * 7 % 50}", f"r{i % 3}", f"e{i}") for i in range(200)]
    graphs = []
    for seed in range(2):
        random.Random(seed).shuffle(rows)
        write(tmp_path / "train.tsv", rows)
        graphs.append(load_graph(tmp_path))
    assert graphs[0].entities == graphs[1].entities
    np.testing.assert_array_equal(graphs[0].train, graphs[1].train)


def test_repeated_triples_are_left_out_and_counted(folder):
    write(folder / "train.tsv", [*TRAIN, TRAIN[0], TRAIN[0], TRAIN[2]])
    write(folder / "test.txt", [*TEST, TRAIN[0]])  # in another split it is no repetition
    graph = load_graph(folder)
    assert len(graph.train) == 3
    assert len(graph.test) == 2
    assert graph.repeated == {"train": 3, "valid": 0, "test": 0}


def test_names(folder):
    with gzip.open(folder / "entities.tsv.gz", "wt") as file:
        file.write("entity\tname\tnote\r\nbe\tBelgium\tbeer\r\nxx\tNowhere\t\r\n")
    (folder / "relations.tsv").write_text("relation\tname\nin\tlies in\n")
    graph = load_graph(folder)
    assert graph.entities.names == ["Belgium", "de", "europe", "nl"]
    assert graph.relations.names == ["borders", "lies in"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ": empty"),
        (b"be\tBelgium\n", ", line 1: not the header of a names file"),
        (b"entity\tname\nbe\n", ", line 2: a label or its name is missing"),
        (b"entity\tname\nbe\tBelgium\nbe\tBelgique\n", ", line 3: 'be' has a name already"),
        (b"entity\tname\nbe\t\xff\n", ", line 2: not UTF-8 text"),
    ],
)
def test_bad_names(folder, content, message):
    (folder / "entities.tsv").write_bytes(content)
    with pytest.raises(DataError) as caught:
        load_graph(folder)
    assert str(caught.value).startswith(f"{folder / 'entities.tsv'}{message}")
    assert caught.value.remedy


def test_rdf_labels_are_names_of_entities_and_relations(tmp_path):
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    (tmp_path / "train.nt").write_text(
        f'<http://a> <http://r> <http://b> .\n<http://a> {label} "A" .\n<http://r> {label} "R" .\n'
    )
    graph = load_graph(tmp_path)
    assert graph.entities.names == ["A", "b"]
    assert graph.relations.names == ["R"]


def test_with_the_vocabularies_of_a_run(folder):
    entities = Vocabulary.of(["be", "de", "europe", "fr", "nl"], kind="entity")
    relations = Vocabulary.of(["borders", "in"], kind="relation")
    graph = load_graph(folder, (entities, relations))
    assert graph.entities is entities
    assert sorted(labelled(graph, "train")) == sorted(TRAIN)


@pytest.mark.parametrize(
    ("entities", "relations", "message"),
    [
        (
            ["be", "nl"],
            ["borders", "in"],
            r"train\.tsv: 2 of its labels are no entity of the run, 'de' the first of them",
        ),
        (
            ["be", "nl", "de", "europe"],
            ["in"],
            r"train\.tsv: 1 of its labels are no relation of the run, 'borders' the",
        ),
    ],
)
def test_labels_that_a_run_does_not_know(folder, entities, relations, message):
    with pytest.raises(DataError, match=message):
        load_graph(folder, (Vocabulary.of(entities, kind="entity"), Vocabulary.of(relations, kind="relation")))


def test_unknown_split(folder):
    with pytest.raises(UnknownNameError, match="unknown split 'tests': did you mean 'test'"):
        load_graph(folder).split("tests")


def test_no_such_dataset(tmp_path):
    with pytest.raises(UnknownNameError, match="unknown dataset 'wn18r': did you mean 'wn18rr'"):
        load_graph("wn18r")
    with pytest.raises(
        UnknownNameError, match="give a name that 'capse data list' shows, or a folder with a file train"
    ):
        load_graph(tmp_path / "gone")


def test_a_folder_without_a_train_file(folder):
    (folder / "train.tsv").unlink()
    with pytest.raises(DataError, match="no train file"):
        load_graph(folder)


def test_two_files_for_one_split(folder):
    write(folder / "dev.tsv", TEST)
    write(folder / "valid.csv", TEST)
    with pytest.raises(DataError, match=r"dev\.tsv and .*valid\.csv are both the valid split"):
        load_graph(folder)


def test_an_unknown_format_in_a_folder(folder):
    (folder / "valid.xlsx").write_bytes(b"")
    with pytest.raises(DataError, match=r"valid\.xlsx: not a known format"):
        load_graph(folder)


def test_labelled_triples_are_checked():
    with pytest.raises(DataError, match="train, triple 1: 2 columns instead of 3"):
        Graph.from_triples([("a", "b")])
    with pytest.raises(DataError, match="no triples in it"):
        Graph.from_triples([])


def test_the_embedded_graph():
    graph = load_graph("countries")
    assert graph.name == "countries"
    assert min(len(graph.train), len(graph.valid), len(graph.test)) > 0


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("record", [BENCHMARKS[name] for name in ("wn18rr", "fb15k-237")], ids=lambda r: r.name)
def test_benchmarks_have_the_sizes_of_table_1(record):
    graph = load_graph(record.name)
    sizes = {"entities": len(graph.entities), "relations": len(graph.relations)}
    assert sizes | {split: len(graph.split(split)) for split in ("train", "valid", "test")} == record.sizes
    assert not any(graph.repeated.values())
    assert graph.entities.names is not None
