"""The recipe where no model is named: how it follows the graph and the machine, and who is told."""

from __future__ import annotations

import pytest
import yaml

import capse
from capse.experiments.automatic import LEAST_RANK, SAMPLE, Machine, Size, choose, recipe_for
from capse.experiments.recipe import Recipe

LAPTOP = Machine("2 cores", 4e10, gpu=False)
GPU = Machine("a GPU", 3e13, gpu=True)
KINSHIP_LIKE = Size(entities=104, relations=25, triples=8_500, validated=True)
FB15K_LIKE = Size(entities=14_541, relations=237, triples=272_115, validated=True)
WORDNET_LIKE = Size(entities=40_943, relations=11, triples=86_835, validated=True)


class Told(capse.Listener):
    """Keeps what it is told."""

    def __init__(self):
        self.lines = []

    def message(self, text):
        self.lines.append(text)


def test_large_graphs_get_the_published_settings_on_a_gpu():
    """Rank 1000, batch 1000, N3 of .05 and weight 4 for FB15k-237, .1 and .05 for WN18RR (Chen et al., AKBC 2021)."""
    recipe = recipe_for(FB15K_LIKE, GPU)
    assert (recipe.model_name, recipe.model.dim, recipe.model.reciprocal) == ("complex", 1000, True)
    assert (recipe.training.batch_size, recipe.training.precision) == (1024, "tf32")
    assert (recipe.loss.relation_weight, recipe.negatives.sampler) == (3.95, "all")
    assert 0.02 < recipe.regularizer.n3 < 0.06
    recipe = recipe_for(WORDNET_LIKE, GPU)
    assert recipe.model.dim == 1000
    assert recipe.loss.relation_weight < 0.3
    assert recipe.regularizer.n3 == 0.1


def test_small_dense_graphs_get_a_weak_penalty():
    assert recipe_for(KINSHIP_LIKE, LAPTOP).regularizer.n3 < 0.02


def test_a_slow_machine_gets_what_it_can_afford():
    recipe = recipe_for(FB15K_LIKE, LAPTOP)
    assert (recipe.negatives.sampler, recipe.negatives.count) == ("shared", SAMPLE)
    ranks = [recipe_for(FB15K_LIKE, Machine("", speed, gpu=False)).model.dim for speed in (1e9, 4e11, 2e12, 3e13)]
    assert ranks == sorted(ranks)
    assert ranks[0] == LEAST_RANK


def test_without_a_validation_set_the_epochs_are_few():
    size = Size(entities=104, relations=25, triples=8_500, validated=False)
    assert recipe_for(size, LAPTOP).training.epochs < recipe_for(KINSHIP_LIKE, LAPTOP).training.epochs


@pytest.mark.parametrize("size", [Size(1, 1, 1, False), Size(10**8, 10, 10**9, True), Size(50, 10**6, 50, True)])
def test_any_size_has_a_recipe(size):
    assert recipe_for(size, LAPTOP).negatives.count <= size.entities


def test_it_learns_what_was_planted_and_says_what_it_chose(planted):
    told = Told()
    run = capse.fit(planted, training=capse.Training(epochs=12), listener=told)
    assert run.evaluate("test").metrics["tail"]["realistic"]["hits@3"] == 1
    chosen = told.lines[:3]
    assert "no model is named" in chosen[0]
    assert "ComplEx of rank 200" in chosen[0]
    assert f"{len(planted.train)} triples" in chosen[1]
    assert "12 epochs" in chosen[2]


def test_the_run_keeps_the_recipe_and_goes_on_with_it(planted, tmp_path, monkeypatch):
    """Even on a machine for which another one would be chosen."""
    capse.fit(planted, training=capse.Training(epochs=1), out=tmp_path / "run")
    assert yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())["model"]["name"] == "complex"
    monkeypatch.setattr("capse.experiments.automatic.choose", lambda graph: pytest.fail("chosen again"))
    told = Told()
    capse.fit(planted, out=tmp_path / "run", resume=True, listener=told)
    assert told.lines[0].startswith("resuming")


def test_the_command_says_it_and_options_have_the_last_word(planted, tmp_path, run_command):
    capse.save_graph(planted, tmp_path / "graph")
    (tmp_path / "few.yaml").write_text("training: {epochs: 1}\n")
    options = ["--data", tmp_path / "graph", "--set", "model.dim=8", "--out", tmp_path / "run"]
    status, output, errors = run_command("train", tmp_path / "few.yaml", *options)
    assert (status, output.strip()) == (0, str(tmp_path / "run"))
    assert "ComplEx of rank 8" in " ".join(errors.split())
    kept = Recipe.from_mapping(yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text()))
    assert (kept.model_name, kept.model.dim, kept.training.epochs) == ("complex", 8, 1)
    assert kept.regularizer == choose(planted).regularizer
    status, _, errors = run_command("train", "--resume", "--out", tmp_path / "run")
    assert status == 0
    assert "no model is named" not in errors


@pytest.mark.parametrize("model", ["capse", "convkb"])
def test_the_papers_model_says_that_it_wants_a_start(planted, model):
    told = Told()
    capse.fit(planted, model, training=capse.Training(epochs=1), listener=told)
    assert any("Train TransE first" in line for line in told.lines)
    told = Told()
    capse.fit(planted, capse.TransE(dim=100), training=capse.Training(epochs=1), listener=told)
    assert not any("Train TransE first" in line for line in told.lines)


def test_a_file_that_names_only_a_model_gets_its_settings(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("model: {name: complex, dim: 7}\nregularizer: {n3: 0.3}\n")
    recipe, shipped = Recipe.resolve(path), Recipe.resolve(model="complex")
    assert (recipe.model.dim, recipe.model.reciprocal, recipe.regularizer.n3) == (7, True, 0.3)
    assert (recipe.training, recipe.loss, recipe.optimizer) == (shipped.training, shipped.loss, shipped.optimizer)
