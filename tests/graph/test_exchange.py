"""Neighbours by brute force and by FAISS, vectors in other programs' forms, Hugging Face's folders."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from safetensors.torch import load_file

import capse
from capse.errors import DataError, MissingExtraError, RunError, SettingsError
from capse.graph.dataset import Graph
from capse.graph.exchange import faiss_index, vectors
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.models import build_model


def made(seed=0, labels=None, reciprocal=True):
    names = labels or [f"entity {i:02}" for i in range(40)]
    graph = Graph.from_triples([(names[i], "next", names[(i + 1) % len(names)]) for i in range(len(names))])
    model = build_model(capse.ComplEx(dim=6, reciprocal=reciprocal), len(graph.entities), 1, seed)
    return LinkPredictor(model, graph)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run = made()
    with torch.no_grad():
        run.model.entities[7] = run.model.entities[3]  # a tie
    run.save(tmp_path_factory.mktemp("exchange") / "run")
    return run


def cosines(run, place):
    table = run.model.entities.detach().double().numpy()
    lengths = np.linalg.norm(table, axis=1)
    return table @ table[place] / (lengths * lengths[place])


def test_neighbours_are_those_of_the_definition(run):
    for place in (0, 3, 22):
        expected = cosines(run, place)
        expected[place] = -np.inf
        found = run.similar(f"entity {place:02}", top=8)
        assert [near.similarity for near in found] == pytest.approx(np.sort(expected)[::-1][:8].tolist(), abs=1e-6)
        assert all(abs(near.similarity - expected[int(near.entity[7:])]) < 1e-6 for near in found)
    assert run.similar("entity 03", top=1)[0].entity == "entity 07"
    assert len(run.similar("entity 03", top=99)) == 39
    with pytest.raises(SettingsError, match="ask for 1 or more"):
        run.similar("entity 03", top=0)


class TestFaiss:
    @pytest.fixture
    def index(self, run, tmp_path):
        pytest.importorskip("faiss")
        faiss_index.write_index(run, tmp_path / "run.faiss")
        return tmp_path / "run.faiss"

    def test_neighbours_are_those_of_brute_force(self, run, index):
        for entity in run.graph.entities.labels:
            ours, theirs = run.similar(entity, 5), faiss_index.similar_by_index(run, index, entity, 5)
            assert [near.similarity for near in theirs] == pytest.approx([near.similarity for near in ours], abs=1e-6)
            assert {near.entity for near in theirs[:4]} <= {near.entity for near in run.similar(entity, 7)}

    def test_an_index_answers_for_its_run_only(self, run, index):
        with pytest.raises(RunError, match="was built for another run: build it with 'capse export"):
            faiss_index.similar_by_index(made(seed=1), index, "entity 03")

    def test_a_damaged_index_is_refused(self, run, index):
        content = bytearray(index.read_bytes())
        content[len(content) // 2] ^= 1
        index.write_bytes(content)
        with pytest.raises(DataError, match=r"run\.faiss is damaged"):
            faiss_index.similar_by_index(run, index, "entity 03")
        faiss_index._beside(index).unlink()
        with pytest.raises(DataError, match="is no index with its description beside it"):
            faiss_index.similar_by_index(run, index, "entity 03")

    def test_without_faiss_the_extra_is_named(self, run, tmp_path, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "faiss", None)
        with pytest.raises(MissingExtraError, match=r"pip install 'capse\[faiss\]'"):
            faiss_index.write_index(run, tmp_path / "x")


class TestVectors:
    def test_parquet(self, run, tmp_path):
        vectors.write_parquet(run, tmp_path / "v.parquet")
        rows = pq.read_table(tmp_path / "v.parquet").to_pylist()
        assert [row["kind"] for row in rows] == ["entity"] * 40 + ["relation", "inverse"]
        assert [row["label"] for row in rows[:40]] == run.graph.entities.labels
        assert np.array([row["vector"] for row in rows[:40]], np.float32) == pytest.approx(run.model.entities.detach())

    def test_numpy(self, run, tmp_path):
        vectors.write_numpy(run, tmp_path / "v.npz")
        found = np.load(tmp_path / "v.npz", allow_pickle=False)
        assert np.array_equal(found["entities"], run.model.entities.detach().numpy())
        assert np.array_equal(found["relations"], run.model.relations.detach().numpy())
        assert found["entity_labels"].tolist() == run.graph.entities.labels

    def test_word2vec(self, run, tmp_path):
        vectors.write_word2vec(run, tmp_path / "v.txt")
        first, *lines = (tmp_path / "v.txt").read_text().splitlines()
        assert first == "40 12"
        words = [line.split(" ")[0] for line in lines]
        assert words[5] == "entity_05"
        numbers = np.array([line.split(" ")[1:] for line in lines], np.float32)
        assert np.array_equal(numbers, run.model.entities.detach().numpy())
        with pytest.raises(DataError, match="two labels are 'a_b' once spaces are underscores"):
            vectors.write_word2vec(made(labels=["a b", "a_b", "c"]), tmp_path / "w.txt")
        assert not (tmp_path / "w.txt").exists()

    def test_a_model_without_vectors(self, tmp_path):
        rules = capse.fit([("a", "r", "b"), ("b", "r", "a")], capse.Rules())
        with pytest.raises(SettingsError, match="has no vectors"):
            vectors.write_numpy(rules, tmp_path / "v.npz")
        with pytest.raises(SettingsError, match="has no vectors"):
            rules.similar("a")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "run"
    capse.fit("countries", capse.DistMult(dim=8), training=capse.Training(epochs=1), out=path)
    return path


class TestCommandLine:
    def test_similar(self, trained, run_command, tmp_path):
        status, output, _ = run_command("similar", trained, "Kenya", "--top", 3, "--json")
        found = json.loads(output)
        assert (status, len(found), set(found[0])) == (0, 3, {"entity", "name", "similarity"})
        assert "near Kenya" in run_command("similar", trained, "Kenya")[1]
        pytest.importorskip("faiss")
        assert run_command("export", trained, "--format", "faiss", "--out", tmp_path / "i")[0] == 0
        by_index = json.loads(
            run_command("similar", trained, "Kenya", "--top", 3, "--json", "--index", tmp_path / "i")[1]
        )
        assert [near["entity"] for near in by_index] == [near["entity"] for near in found]
        status, _, errors = run_command("similar", trained, "Kenia")
        assert (status, "did you mean 'Kenya'" in errors) == (2, True)

    @pytest.mark.parametrize("form", ["parquet", "numpy", "word2vec"])
    def test_export(self, trained, run_command, tmp_path, form):
        status, output, _ = run_command("export", trained, "--format", form, "--out", tmp_path / "vectors")
        assert (status, output.strip(), (tmp_path / "vectors").is_file()) == (0, str(tmp_path / "vectors"), True)
        status, _, errors = run_command(
            "export", trained, "--format", form, "--out", tmp_path / "x", "--licence", "mit"
        )
        assert (status, "is for a model card" in errors) == (2, True)

    def test_hugging_face(self, trained, run_command, tmp_path):
        folder = tmp_path / "hub"
        made_it = run_command("export", trained, "--format", "hugging-face", "--out", folder, "--licence", "cc0-1.0")
        assert made_it[0] == 0
        config = json.loads((folder / "config.json").read_text())
        assert (config["architectures"], config["num_entities"]) == (["distmult"], 804)
        assert set(load_file(folder / "model.safetensors")) >= {"entities", "relations"}
        card = (folder / "README.md").read_text()
        header = yaml.safe_load(card.split("---")[1])
        assert (header["library_name"], header["license"]) == ("capse", "cc0-1.0")
        assert "# distmult on countries" in card
        assert "| epochs | 1 |" in card
        assert not (folder / "checkpoints").exists()
        first, again = capse.load(trained), capse.load(folder)
        assert isinstance(first, LinkPredictor)
        assert isinstance(again, LinkPredictor)
        facts = [("Kenya", "borders", "Uganda"), ("Kenya", "borders", "Peru")]
        assert again.score(facts) == first.score(facts)
        assert run_command("export", trained, "--format", "hugging-face", "--out", folder)[0] == 2
