"""A predictor's run folder: saved to a new place it is whole; and other data is held to what the run was trained on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import capse
from capse.errors import RunError, SettingsError
from capse.experiments.recipe import Recipe
from capse.graph.dataset import Graph
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.models import build_model
from capse.models.base import TripleModel

QUICK = ["training.epochs=1", "model.dim=8"]


@pytest.fixture(scope="module")
def run(planted: Graph, tmp_path_factory: pytest.TempPathFactory) -> LinkPredictor:
    return capse.fit(
        planted, Recipe.resolve(model="distmult", overrides=QUICK), out=tmp_path_factory.mktemp("runs") / "run"
    )


def test_a_saved_run_is_a_run_of_its_own(run: LinkPredictor, tmp_path: Path) -> None:
    predictor = LinkPredictor.load(run.folder.path if run.folder else "", device="cpu")
    predictor.calibrate()
    predictor.save(tmp_path / "copy")
    again = LinkPredictor.load(tmp_path / "copy", device="cpu")
    np.testing.assert_array_equal(again.score_ids(again.graph.test), predictor.score_ids(predictor.graph.test))
    assert again.graph.name == predictor.graph.name
    assert again.predict(relation="lies in", tail="region 3") == predictor.predict(relation="lies in", tail="region 3")
    names = {path.name for path in (tmp_path / "copy").iterdir()}
    assert {"recipe.yaml", "model.safetensors", "metrics.jsonl", "results.json", "calibration.json"} <= names
    assert predictor.folder
    assert predictor.folder.path == tmp_path / "copy"


def test_a_predictor_without_a_folder_can_be_saved(planted: Graph, tmp_path: Path) -> None:
    model = build_model(capse.TransE(dim=8, norm=2), len(planted.entities), len(planted.relations))
    LinkPredictor(model, planted).save(tmp_path / "run")
    again = LinkPredictor.load(tmp_path / "run", device="cpu")
    assert again.model.settings == capse.TransE(dim=8, norm=2)
    assert torch.equal(again.model.entities, model.entities)


def test_nothing_is_overwritten_and_nothing_is_left_half_written(run: LinkPredictor, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    with pytest.raises(SettingsError):
        run.save(tmp_path / "taken")
    model = TripleModel(run.model.scorer, len(run.graph.entities), len(run.graph.relations))
    with pytest.raises(RunError, match="does not say what its settings are"):
        LinkPredictor(model, run.graph).save(tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def write_split(folder: Path, graph: Graph, split: str, file: str) -> None:
    folder.mkdir(exist_ok=True)
    e, r = graph.entities.labels, graph.relations.labels
    (folder / file).write_text("".join(f"{e[h]}\t{r[k]}\t{e[t]}\n" for h, k, t in graph.split(split)))


def test_other_data_may_be_a_test_file_alone(run: LinkPredictor, tmp_path: Path) -> None:
    write_split(tmp_path / "data", run.graph, "test", "test.tsv")
    own, other = run.evaluate("test"), run.evaluate("test", tmp_path / "data")
    assert other.metrics == own.metrics
    assert other.breakdowns == own.breakdowns
    assert (other.dataset, other.unseen_triples) == ("data", own.unseen_triples)


def test_another_train_file_changes_neither_the_filter_nor_what_is_unseen(run: LinkPredictor, tmp_path: Path) -> None:
    write_split(tmp_path / "data", run.graph, "test", "test.tsv")
    write_split(tmp_path / "data", run.graph, "valid", "train.tsv")
    own, other = run.evaluate("test"), run.evaluate("test", tmp_path / "data")
    assert (other.metrics, other.unseen_triples) == (own.metrics, own.unseen_triples)


def test_triples_of_other_data_do_not_compete_either(run: LinkPredictor, tmp_path: Path) -> None:
    write_split(tmp_path / "data", run.graph, "test", "test.tsv")
    entities, relations = run.graph.entities.labels, run.graph.relations.labels
    head, relation, _ = run.graph.test[0]
    rows = [f"{entities[head]}\t{relations[relation]}\t{tail}\n" for tail in entities]
    (tmp_path / "data" / "valid.tsv").write_text("".join(rows))
    assert run.evaluate("test", tmp_path / "data").tails.candidates[0] == 1
    assert run.evaluate("test", tmp_path / "data", filtered=False).tails.candidates[0] == len(entities)
