"""fit: how the best epoch is chosen, what a run folder holds, and what is refused before anything is written."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from capse.errors import CapseError, DataError, RunError, SettingsError, StorageError
from capse.experiments import fit as fit_module
from capse.experiments.engine import Listener
from capse.experiments.fit import fit
from capse.experiments.recipe import Recipe
from capse.graph.dataset import Graph
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.link_prediction.ranking import rank_split
from capse.models.transe import TransE
from capse.runs import tensors
from capse.runs.folder import RunFolder
from capse.runs.manifest import write_manifest
from capse.training.settings import Training
from capse.triples import TripleIndex

QUICK = [
    "model.dim=4",
    "model.reciprocal=false",
    "training.batch_size=16",
    "training.device=cpu",
    "validation.patience=0",
]
LIVELY = [*QUICK, "training.epochs=12", "training.learning_rate=0.3", "validation.every=1"]


def ranks_by_hand(predictor, triples, known):
    """Realistic filtered ranks of heads and tails, one triple and one candidate at a time."""
    entities = len(predictor.graph.entities)
    known = set(map(tuple, np.concatenate(known).tolist()))
    ranks = []
    for h, r, t in triples.tolist():
        for side in (0, 2):
            candidates = [(e, r, t) if side == 0 else (h, r, e) for e in range(entities)]
            with torch.no_grad():
                scores = predictor.model.score_triples(*torch.tensor(candidates).unbind(1)).numpy()
            own = scores[h if side == 0 else t]
            rivals = [s for c, s in zip(candidates, scores, strict=True) if c not in known and c != (h, r, t)]
            ranks.append(1 + sum(s > own for s in rivals) + sum(s == own for s in rivals) / 2)
    return np.array(ranks)


@pytest.fixture(scope="module")
def many_answers():
    """Questions with answers in all three splits, so that it matters which of them are filtered."""
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(12, size=(70, 2)), axis=0)
    rng.shuffle(pairs)
    facts = [(f"e{h:02}", "r", f"e{t:02}") for h, t in pairs.tolist()]
    return Graph.from_triples([*facts[:25], *((f"e{i:02}", "s", "e00") for i in range(12))], facts[25:35], facts[35:])


def test_validation_filters_by_training_and_validation_triples_only(many_answers, tmp_path):
    """A choice must not know the test set, not even which triples are in it."""
    predictor = fit(
        many_answers,
        Recipe.resolve(model="distmult", overrides=[*QUICK, "training.epochs=1", "validation.every=1"]),
        out=tmp_path / "run",
    )
    (record,) = RunFolder(tmp_path / "run").read_metrics()
    graph = many_answers
    honest = ranks_by_hand(predictor, graph.valid, [graph.train, graph.valid])
    leaky = ranks_by_hand(predictor, graph.valid, [graph.train, graph.valid, graph.test])
    assert honest.mean() > leaky.mean() + 0.1
    found = record["validation"]["realistic"]
    assert found["mr"] == pytest.approx(honest.mean())
    assert found["mrr"] == pytest.approx((1 / honest).mean())
    for k in (1, 3, 10):
        assert found[f"hits@{k}"] == pytest.approx((honest <= k).mean())


@pytest.mark.parametrize("metric", ["mrr", "mr", "hits@3"])
def test_the_epoch_that_is_kept_is_the_best_on_validation(many_answers, tmp_path, metric):
    options = [*LIVELY, f"validation.metric={metric}"]
    fit(many_answers, Recipe.resolve(model="distmult", overrides=options), out=tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    values = [record["validation"]["realistic"][metric] for record in run.read_metrics()]
    assert len(values) == 12
    assert len(set(values)) > 1, "a test of choosing needs a choice"
    best = min(values) if metric == "mr" else max(values)
    results = json.loads(run.results.read_text())
    assert results["best_epoch"] == values.index(best) + 1
    assert results["best_validation"] == {metric: pytest.approx(best)}
    graph = many_answers
    ranks = ranks_by_hand(LinkPredictor.load(run.path, "cpu"), graph.valid, [graph.train, graph.valid])
    kept = {"mr": ranks.mean(), "mrr": (1 / ranks).mean(), "hits@3": (ranks <= 3).mean()}[metric]
    assert kept == pytest.approx(best)


def test_patience(many_answers, tmp_path):
    fit(
        many_answers,
        Recipe.resolve(model="distmult", overrides=[*LIVELY, "validation.patience=2", "training.epochs=100"]),
        out=tmp_path / "run",
    )
    values = [record["validation"]["realistic"]["mrr"] for record in RunFolder(tmp_path / "run").read_metrics()]
    best = values.index(max(values))
    assert len(values) == best + 3 < 100
    assert json.loads(RunFolder(tmp_path / "run").results.read_text())["epochs"] == len(values)


def test_a_sample_of_the_validation_set_is_the_same_at_every_validation(many_answers, tmp_path, monkeypatch):
    seen = []
    real = rank_split
    monkeypatch.setattr(
        fit_module,
        "rank_split",
        lambda model, triples, known, group: (seen.append(triples), real(model, triples, known, group=group))[1],
    )
    fit(
        many_answers,
        Recipe.resolve(model="distmult", overrides=[*LIVELY, "training.epochs=2", "validation.triples=4"]),
        out=tmp_path / "run",
    )
    first, second = seen
    assert len(first) == 4
    assert np.array_equal(first, second)
    assert TripleIndex(many_answers.valid, 12, 2).contains(*first.T).all()


@pytest.mark.parametrize("options", [["validation.every=0"], []])
def test_without_validation_the_last_epoch_is_kept(small, tmp_path, options):
    graph = (
        small if options else Graph("bare", small.entities, small.relations, small.train, small.valid[:0], small.test)
    )
    fit(
        graph, Recipe.resolve(model="distmult", overrides=[*QUICK, "training.epochs=3", *options]), out=tmp_path / "run"
    )
    run = RunFolder(tmp_path / "run")
    assert not any("validation" in record for record in run.read_metrics())
    results = json.loads(run.results.read_text())
    assert (results["epochs"], results["best_epoch"]) == (3, 3)
    assert list(results["best_validation"].values()) == [None]


def test_no_epochs_make_an_untrained_run_that_can_be_evaluated(small, tmp_path):
    fit(small, Recipe.resolve(model="capse", overrides=[*QUICK, "training.epochs=0"]), out=tmp_path / "run")
    predictor = LinkPredictor.load(tmp_path / "run", "cpu")
    assert predictor.evaluate("test").triples == 10
    assert RunFolder(tmp_path / "run").read_metrics() == []
    assert json.loads(RunFolder(tmp_path / "run").results.read_text())["epochs"] == 0


@pytest.mark.parametrize("model", ["transe", "complex", "conve", "capse"])
def test_seeds_fix_every_bit_of_a_run(small, tmp_path, state_of, model):
    sizes = {"conve": ["model.dim=6", "model.height=2", "model.filters=2"]}.get(model, [])
    options = [*QUICK, "training.epochs=3", "validation.every=1", *sizes]
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        torch.rand(17)  # torch's own generator must not matter
        fit(small, Recipe.resolve(model=model, overrides=[*options, f"training.seed={seed}"]), out=tmp_path / name)
    assert state_of(tmp_path / "a") == state_of(tmp_path / "b")
    assert state_of(tmp_path / "a")[0] != state_of(tmp_path / "c")[0]


def test_a_run_folder_holds_what_is_needed_and_can_be_moved(small, tmp_path):
    options = [*QUICK, "training.epochs=2", "validation.every=1"]
    trained = fit(small, Recipe.resolve(model="capse", overrides=options), out=tmp_path / "first" / "run")
    shutil.move(tmp_path / "first" / "run", tmp_path / "moved")
    names = {path.name for path in (tmp_path / "moved").iterdir()}
    assert names == {
        "recipe.yaml", "model.safetensors", "manifest.json", "vocabulary", "graph", "metrics.jsonl", "results.json",
        "checkpoints"
    }  # fmt: skip
    loaded = LinkPredictor.load(tmp_path / "moved", "cpu")
    assert loaded.graph.name == "small"
    for split in ("train", "valid", "test"):
        assert np.array_equal(loaded.graph.split(split), small.split(split))
    triples = [("e01", "next", "e02"), ("e05", "opposite", "e15")]
    assert loaded.score(triples) == trained.score(triples)
    assert loaded.evaluate("test").metrics == trained.evaluate("test").metrics
    resolved = yaml.safe_load((tmp_path / "moved" / "recipe.yaml").read_text())
    assert resolved == Recipe.resolve(model="capse", data="small", overrides=options).to_mapping()


def test_whoever_listens_hears_everything(small, tmp_path):
    heard = []

    class Ear(Listener):
        def message(self, text):
            heard.append(text)

        def step(self, report):
            heard.append((report.epoch, report.step, report.steps, report.examples))

        def epoch(self, record):
            heard.append(record["epoch"])

    options = [*QUICK, "training.epochs=2"]
    fit(small, Recipe.resolve(model="distmult", overrides=options), out=tmp_path / "run", listener=Ear())
    steps = [(1, 1, 3, 13), (1, 2, 3, 13), (1, 3, 3, 14)]
    assert heard == ["embeddings start at random", *steps, 1, *((2, *step[1:]) for step in steps), 2]


@pytest.mark.parametrize(("model", "says"), [("capse", True), ("convkb", True), ("transe", False)])
def test_what_learns_little_from_random_vectors_says_so(small, tmp_path, model, says):
    heard = []

    class Ear(Listener):
        def message(self, text):
            heard.append(text)

    fit(
        small,
        Recipe.resolve(model=model, overrides=[*QUICK, "training.epochs=1"]),
        out=tmp_path / "run",
        listener=Ear(),
    )
    assert any("begins with random vectors here and learns little from them" in text for text in heard) == says


def test_nothing_is_overwritten(small, tmp_path):
    options = [*QUICK, "training.epochs=1"]
    fit(small, Recipe.resolve(model="transe", overrides=options), out=tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    with pytest.raises(RunError, match=r"there is a run in .* already: continue it with --resume, or choose another"):
        fit(small, Recipe.resolve(model="transe", overrides=options), out=tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    for resume in (False, True):
        with pytest.raises(RunError, match="is not empty and not a run"):
            fit(small, Recipe.resolve(model="transe", overrides=options), out=tmp_path / "mine", resume=resume)
    with pytest.raises(SettingsError, match="is a file"):
        fit(small, Recipe.resolve(model="transe", overrides=options), out=tmp_path / "mine" / "thesis.tex")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == before
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


def test_an_empty_folder_may_be_used(small, tmp_path):
    (tmp_path / "run").mkdir()
    fit(small, Recipe.resolve(model="transe", overrides=[*QUICK, "training.epochs=0"]), out=tmp_path / "run")
    assert LinkPredictor.load(tmp_path / "run").graph.name == "small"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["validation.metric=mmr"], "validation.metric is 'mmr'"),
        (["training.device=tpu"], "there is no device 'tpu' here"),
        (["training.device=cuda:99"], "there is no device 'cuda:99' here"),
        (["start.run=nowhere"], "there is no run in nowhere"),
        (["start.words=nowhere"], "nowhere: no such file"),
        (["loss.name=bce", "negatives.sampler=bernoulli"], "loss.name is 'bce' with sampled negatives"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(small, tmp_path, options, message):
    with pytest.raises(CapseError) as error:
        fit(small, Recipe.resolve(model="transe", overrides=[*QUICK, *options]), out=tmp_path / "run")
    assert message in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_settings_that_are_not_given_are_the_recipes(small, tmp_path):
    shipped, training = Recipe.resolve("transe"), Training(epochs=1, device="cpu")
    models: list[Any] = ["transe", shipped, shipped.model, TransE(dim=3)]
    for number, model in enumerate(models):
        run = fit(small, model, out=tmp_path / str(number), training=training)
        stored = Recipe.from_mapping(RunFolder(tmp_path / str(number)).read_recipe())
        assert (stored.loss, stored.validation) == (shipped.loss, shipped.validation)
        assert stored.training == dataclasses.replace(shipped.training, epochs=1, device="cpu") != training
        assert stored.model == dataclasses.replace(shipped.model, dim=3 if number == 3 else 100)
        assert stored.model.dim == run.model.entities.shape[1]


@pytest.mark.parametrize(
    ("model", "sections", "message"),
    [
        ("transe", {"training": {"epochs": 1}}, r"training is {'epochs': 1}: give a capse.Training(...)"),
        (TransE, {}, "give its settings, a recipe, or a recipe's name or file"),
        ("transee", {}, "unknown recipe 'transee': did you mean 'transe"),
    ],
)
def test_what_is_no_model_and_no_section_is_said_in_a_line(small, tmp_path, model, sections, message):
    with pytest.raises(CapseError) as error:
        fit(small, model, out=tmp_path / "run", **sections)
    assert message in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_a_folder_is_kept_by_saving_it(small, tmp_path):
    run = fit(small, TransE(dim=3), training=Training(epochs=1, device="cpu"))
    folder = run.folder.path
    assert folder.is_dir()
    run.save(tmp_path / "kept")
    kept = LinkPredictor.load(tmp_path / "kept", "cpu")
    assert kept.score([("e01", "next", "e02")]) == run.score([("e01", "next", "e02")])
    del run
    assert not folder.exists()
    with pytest.raises(CapseError, match="exists and is not an empty folder"):
        kept.save(tmp_path / "kept")


@pytest.mark.parametrize("call", range(1, 6))  # the graph, two vocabularies, the recipe, and the folder itself
def test_a_disk_that_fills_up_while_the_folder_is_made_leaves_nothing(small, tmp_path, monkeypatch, call):
    calls = []
    real = os.replace

    def replace(*arguments):
        calls.append(arguments)
        if len(calls) == call:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*arguments)

    monkeypatch.setattr(os, "replace", replace)
    try:
        with pytest.raises(StorageError, match="No space left on device"):
            fit(small, Recipe.resolve(model="transe", overrides=[*QUICK, "training.epochs=1"]), out=tmp_path / "run")
    finally:
        monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []
    fit(
        small,
        Recipe.resolve(model="transe", overrides=[*QUICK, "training.epochs=1"]),
        out=tmp_path / "run",
        resume=True,
    )


def test_a_disk_that_fills_up_during_training_can_be_cleared_and_gone_on_from(small, tmp_path, monkeypatch, state_of):
    options = [*QUICK, "training.epochs=3", "training.checkpoint_seconds=0"]
    fit(small, Recipe.resolve(model="transe", overrides=options), out=tmp_path / "whole")
    pieces = []

    def bytes_of(piece):
        pieces.append(piece)
        if len(pieces) > 50:  # the third checkpoint or later, when part of it is written
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(piece)

    whole = tensors._bytes_of
    monkeypatch.setattr(tensors, "_bytes_of", bytes_of)
    with pytest.raises(StorageError, match=r"cannot write .*last\.safetensors \(No space left on device\)"):
        fit(small, Recipe.resolve(model="transe", overrides=options), out=tmp_path / "run")
    monkeypatch.undo()
    fit(small, Recipe.resolve(model="transe", overrides=options), out=tmp_path / "run", resume=True)
    assert state_of(tmp_path / "run") == state_of(tmp_path / "whole")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda run: run.recipe.write_bytes(b"\xff\xfe\x00"), "recipe.yaml cannot be read"),
        (lambda run: run.recipe.write_text("a: ["), "recipe.yaml, line 1 is not valid YAML"),
        (lambda run: run.recipe.write_text(""), "recipe.yaml does not say which model this is"),
        (lambda run: run.recipe.write_text("model: transe"), "recipe.yaml does not say which model this is"),
        (lambda run: run.recipe.write_text("model: {name: nonesuch}"), "unknown model 'nonesuch'"),
        (lambda run: run.recipe.write_text("model: {name: transe, dim: 5}"), "does not fit its recipe and vocabulary"),
        (lambda run: shutil.rmtree(run.graph), "graph is missing"),
        (lambda run: shutil.rmtree(run.vocabulary), "not a readable vocabulary"),
        (lambda run: (run.vocabulary / "entities.parquet").write_bytes(b"PAR1"), "not a readable vocabulary"),
        (lambda run: run.model.unlink(), "is not finished"),
        (lambda run: run.model.write_bytes(run.model.read_bytes()[:-3]), "is damaged or not a capse file"),
    ],
)
def test_a_damaged_run_says_so(small, tmp_path, damage, message):
    fit(small, Recipe.resolve(model="transe", overrides=[*QUICK, "training.epochs=0"]), out=tmp_path / "run")
    damage(RunFolder(tmp_path / "run"))
    write_manifest(tmp_path / "run")  # else it is refused before anything is read
    with pytest.raises(CapseError) as error:
        LinkPredictor.load(tmp_path / "run", "cpu")
    assert message in str(error.value)
    assert error.value.remedy


def test_a_saturated_relation_is_a_clear_error(tmp_path):
    graph = Graph.from_triples([(a, "r", b) for a in "abc" for b in "abc"], name="full")
    with pytest.raises(DataError, match="connects every entity"):
        fit(graph, Recipe.resolve(model="transe", overrides=QUICK), out=tmp_path / "run")


def test_tensorboard_on_request(small, tmp_path):
    pytest.importorskip("tensorboard")
    options = [*QUICK, "training.epochs=1", "validation.every=1", "training.tensorboard=true"]
    fit(small, Recipe.resolve(model="transe", overrides=options), out=tmp_path / "run")
    (events,) = RunFolder(tmp_path / "run").tensorboard.iterdir()
    assert b"validation/realistic/mrr" in events.read_bytes()


def test_a_kernel_that_cannot_be_used_is_noticed_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPSE_KERNEL", "gpu")
    with pytest.raises(SettingsError, match="CAPSE_KERNEL is 'gpu'"):
        fit("countries", Recipe.resolve(model="convkb", overrides=["training.device=cpu"]), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
