"""Two models against each other, from a recipe's section to a run: what is found, and what is refused."""

from __future__ import annotations

import json
import shutil

import pytest
from safetensors.torch import load_file

import capse
from capse.errors import CapseError, SettingsError
from capse.experiments.fit import fit
from capse.experiments.recipe import Recipe
from capse.graph.dataset import Graph
from capse.models import name_of

QUICK = ["model.dim=4", "training.epochs=2", "training.batch_size=16", "training.device=cpu"]


def recipe(model="transe", *more):
    return Recipe.resolve(model=model, overrides=[*QUICK, *more])


@pytest.fixture(scope="module")
def generator(small, tmp_path_factory):
    path = tmp_path_factory.mktemp("generator") / "run"
    fit(small, recipe("distmult", "model.reciprocal=false", "loss.name=softmax", "negatives.sampler=uniform"), out=path)
    return path


def last_state(folder):
    return load_file(folder / "checkpoints" / "last.safetensors")


def test_planted_facts_are_found(planted, tmp_path):
    settings = ["model.dim=16", "training.epochs=100", "training.batch_size=64", "training.learning_rate=0.01"]
    settings += ["training.device=cpu", "loss.margin=2", "validation.every=25", "negatives.count=4"]
    both = Recipe.resolve(model="transe", overrides=[*settings, "adversary.model=distmult", "adversary.dim=16"])
    found = fit(planted, both, out=tmp_path / "run").evaluate("test", breakdowns=False, intervals=False)
    assert found.metrics["both"]["realistic"]["mrr"] > 0.9


def test_the_generator_learns_to_draw_what_is_taken_for_true(small, tmp_path):
    """Against a discriminator that stands still the reward, a score of what is drawn, rises."""
    rewards = []
    for epochs in (2, 60):  # the last baseline is of the epoch before
        still = ["training.learning_rate=1e-30", "adversary.learning_rate=0.05", f"training.epochs={epochs}"]
        fit(small, recipe("transe", *still, "adversary.model=distmult"), out=tmp_path / str(epochs))
        rewards.append(float(last_state(tmp_path / str(epochs))["baseline.value"]))
    assert rewards[1] > rewards[0] + 0.3


def test_the_generator_begins_as_its_run(small, generator, tmp_path):
    """A step of no length leaves it as it was; the discriminator is what is kept."""
    still = recipe(
        "transe", f"adversary.run={generator}", "training.learning_rate=1e-30", "adversary.learning_rate=1e-30"
    )
    run = fit(small, still, out=tmp_path / "run")
    state, stored = last_state(tmp_path / "run"), load_file(generator / "model.safetensors")
    assert all((state[f"generator.{name}"] - tensor).abs().max() < 1e-20 for name, tensor in stored.items())
    assert name_of(run.model.settings) == "transe"
    assert set(load_file(tmp_path / "run" / "model.safetensors")) == {"entities", "relations"}


def test_python_says_it_by_a_settings_class(small, generator):
    settings = capse.Adversary(run=str(generator), candidates=3, baseline="none")
    training = capse.Training(epochs=1, batch_size=16, device="cpu")
    run = capse.fit(small, capse.TransE(dim=4), training=training, adversary=settings)
    stored = run.folder.read_recipe()["adversary"]
    assert (stored["candidates"], stored["baseline"], stored["run"]) == (3, "none", str(generator))


def other_graphs(small):
    facts = [tuple(row) for row in small.train.tolist()]
    names = small.entities.labels, small.relations.labels
    spelled = [(names[0][h], names[1][r], names[0][t]) for h, r, t in facts]
    yield "other entities", Graph.from_triples([("x", "next", "y"), *spelled], name="else")
    yield "other facts", Graph.from_triples(spelled, name="else")


@pytest.mark.parametrize("which", [0, 1], ids=["other entities", "other facts"])
def test_a_generator_of_another_graph_is_refused(small, generator, tmp_path, which):
    _, graph = list(other_graphs(small))[which]
    with pytest.raises(
        SettingsError,
        match=rf"the adversary in {generator} was trained on another graph \('small'\) than 'else': train it on",
    ):
        fit(graph, recipe("transe", f"adversary.run={generator}"), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["adversary.run=nowhere"], "there is no run in nowhere"),
        (["adversary.run=GENERATOR", "adversary.model=complex"], "adversary.model is 'complex', and .* of 'distmult'"),
        (["adversary.candidates=5"], "the section adversary names no model: set adversary.run or adversary.model"),
        (["adversary.model=distmlt"], "unknown model 'distmlt': did you mean 'distmult'"),
        (["adversary.modle=distmult"], "unknown setting 'adversary.modle': did you mean 'adversary.model'"),
        (["adversary.run=GENERATOR", "model.reciprocal=true"], "the model has reciprocal relations and its adversary"),
        (["adversary.model=distmult", "negatives.sampler=shared"], "negatives.sampler is 'shared' with an adversary"),
        (["adversary.model=distmult", "loss.name=kl"], "loss.name is 'kl' with negatives that an adversary draws"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(small, generator, tmp_path, more, message):
    with pytest.raises(CapseError, match=message):
        fit(
            small, recipe("transe", *(part.replace("GENERATOR", str(generator)) for part in more)), out=tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_needs_the_generators_settings_but_not_its_weights(small, generator, tmp_path):
    """Its weights are in the checkpoint: a generator that was trained on meanwhile changes nothing."""
    shutil.copytree(generator, tmp_path / "generator")
    whole = recipe("transe", f"adversary.run={tmp_path / 'generator'}", "training.epochs=4")

    class Stop(capse.Listener):
        def epoch(self, record):
            if record["epoch"] == 2:
                raise KeyboardInterrupt

    fit(small, whole, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fit(small, whole, out=tmp_path / "run", listener=Stop())
    shutil.move(tmp_path / "generator", tmp_path / "away")
    with pytest.raises(CapseError, match=r"there is no run in .*generator"):
        fit(small, whole, out=tmp_path / "run", resume=True)
    other = recipe(
        "distmult", "model.reciprocal=false", "training.seed=9", "loss.name=softmax", "negatives.sampler=uniform"
    )
    fit(small, other, out=tmp_path / "generator")
    fit(small, whole, out=tmp_path / "run", resume=True)
    ends = [last_state(tmp_path / name) for name in ("whole", "run")]
    assert all((ends[0][name] == ends[1][name]).all() for name in ends[0])
    lines = [json.loads(line)["loss"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 4
