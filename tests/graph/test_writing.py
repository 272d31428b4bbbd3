from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from capse.errors import DataError, SettingsError
from capse.graph import writing
from capse.graph.dataset import Graph, load_graph
from capse.graph.vocabulary import Vocabulary
from capse.graph.writing import copy_folder, save_graph

GRAPH = Graph.from_triples([("a", "r", "b"), ("b", "s", "ü")], test=[("a", "s", "b")])


def named(graph):
    entities = Vocabulary.of(graph.entities.labels, {"a": "Alpha"}, "entity")
    return Graph("g", entities, graph.relations, graph.train, graph.valid, graph.test)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_is_saved_is_loaded(tmp_path):
    graph = named(GRAPH)
    save_graph(graph, tmp_path / "g")
    loaded = load_graph(tmp_path / "g")
    assert loaded.entities == graph.entities
    assert loaded.relations == graph.relations
    for split in ("train", "valid", "test"):
        np.testing.assert_array_equal(loaded.split(split), graph.split(split))
    assert sorted(contents(tmp_path / "g")) == ["entities.tsv.gz", "test.parquet", "train.parquet"]


def test_the_same_graph_gives_the_same_bytes(tmp_path):
    save_graph(named(GRAPH), tmp_path / "g")
    save_graph(named(GRAPH), tmp_path / "h")
    assert contents(tmp_path / "g") == contents(tmp_path / "h")


def test_columns_are_dictionaries_in_zstd(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "_ROW_GROUP", 1)
    save_graph(GRAPH, tmp_path / "g")
    metadata = pq.ParquetFile(tmp_path / "g" / "train.parquet").metadata
    assert metadata.num_row_groups == 2
    assert metadata.schema.names == ["head", "relation", "tail"]
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    assert metadata.row_group(0).column(0).has_dictionary_page


def test_nothing_is_left_of_a_failed_write(tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("power cut")

    monkeypatch.setattr(writing, "write_names", fail)
    with pytest.raises(RuntimeError):
        save_graph(named(GRAPH), tmp_path / "g")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_is_left_alone(tmp_path):
    (tmp_path / "g").mkdir()
    save_graph(GRAPH, tmp_path / "g")  # empty: fine
    before = contents(tmp_path / "g")
    Path(tmp_path, "file").touch()
    for taken in ("g", "file"):
        with pytest.raises(SettingsError, match=f"{taken} exists and is not an empty folder"):
            save_graph(GRAPH, tmp_path / taken)
        with pytest.raises(SettingsError, match=f"{taken} exists and is not an empty folder"):
            copy_folder(tmp_path / "g", tmp_path / taken)
    assert contents(tmp_path / "g") == before


def test_a_copy(tmp_path):
    save_graph(GRAPH, tmp_path / "g")
    (tmp_path / "g" / "__pycache__").mkdir()
    copy_folder(tmp_path / "g", tmp_path / "h")
    assert sorted(contents(tmp_path / "h")) == ["test.parquet", "train.parquet"]


@pytest.mark.parametrize("part", range(1, 6))
def test_a_damaged_file_is_refused(part, tmp_path):
    rows = [(f"entity {i}", f"relation {i % 7}", f"entity {i * 37 % 500}") for i in range(500)]
    save_graph(Graph.from_triples(rows), tmp_path / "g")
    file = tmp_path / "g" / "train.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) * part // 10] ^= 1 << part
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"train\.parquet"):
        load_graph(tmp_path / "g")
