"""The plan says what the paper says."""

from __future__ import annotations

import pytest

from capse.errors import SettingsError, UnknownNameError
from capse.experiments.recipe import Recipe
from capse_paper.plans.graphs import PARTS, PLAN, choose, find, named, needed, with_starts


def recipe(name):
    experiment = named(PLAN, name)
    return Recipe.resolve(experiment.recipe, data=experiment.dataset, overrides=list(experiment.overrides))


def test_names_are_folders_of_their_own():
    names = [experiment.name for experiment in PLAN]
    assert len(set(names)) == len(names)
    assert all(experiment.name.endswith(experiment.dataset) for experiment in PLAN)


@pytest.mark.parametrize("experiment", PLAN, ids=lambda experiment: experiment.name)
def test_every_recipe_is_that_of_its_model_and_data(experiment):
    planned = recipe(experiment.name)
    own_capse = experiment.model == "CapsE" and experiment.settings == "own"
    assert planned.model_name == ("scaled-capse" if own_capse else experiment.model.lower())
    assert Recipe.resolve(experiment.recipe).data in (None, experiment.dataset)
    starts = [named(PLAN, name) for name in experiment.starts.values()]
    assert all(start.dataset == experiment.dataset for start in starts)
    if starts:
        assert sum(recipe(start.name).model.dim for start in starts) == planned.model.dim


@pytest.mark.parametrize(
    ("name", "filters", "learning_rate", "epochs"),
    [
        ("convkb-wn18rr", 400, 5e-5, 100),
        ("convkb-fb15k-237", 100, 1e-5, 100),
        ("convkb-released-wn18rr", 400, 5e-5, 100),
        ("convkb-released-fb15k-237", 100, 1e-5, 100),
        ("capse-wn18rr", 400, 1e-5, 50),
        ("capse-fb15k-237", 50, 1e-4, 50),
        ("capse-released-wn18rr", 400, 1e-5, 31),
        ("capse-released-fb15k-237", 50, 1e-4, 31),
        *((f"capse-m{m}-wn18rr", 50, 1e-5, 50) for m in (1, 3, 5, 7)),
    ],
)
def test_settings_are_the_papers(name, filters, learning_rate, epochs):
    """Section 3.1 of the paper, and what is known of the released program."""
    planned = recipe(name)
    assert (planned.model.filters, planned.model.dim) == (filters, 100)
    assert (planned.training.learning_rate, planned.training.epochs) == (learning_rate, epochs)
    assert planned.training.batch_size == 128
    assert (planned.validation.every, planned.validation.metric, planned.validation.patience) == (10, "hits@10", 0)
    assert (planned.negatives.sampler, planned.negatives.count) == ("bernoulli", 1)
    assert planned.optimizer.name == "adam"
    assert (
        named(PLAN, name).start
        == {"wn18rr": "transe-wn18rr", "fb15k-237": "transe-fb15k-237"}[named(PLAN, name).dataset]
    )
    if planned.model_name == "capse":
        assert planned.model.capsule_dim == 10
        assert planned.model.routing == (named(PLAN, name).routing or 1)


@pytest.mark.parametrize(("dataset", "margin"), [("wn18rr", 5), ("fb15k-237", 1)])
def test_transe_follows_its_protocol(dataset, margin):
    """Nguyen et al. 2016 and 2018, and the start of their program where no words are at hand."""
    planned = recipe(f"transe-{dataset}")
    assert (planned.model.dim, planned.model.norm, planned.model.unit_ball) == (100, 1, True)
    assert (planned.optimizer.name, planned.training.learning_rate, planned.training.epochs) == ("sgd", 5e-4, 3000)
    assert (planned.loss.name, planned.loss.margin, planned.loss.reduction) == ("margin", margin, "sum")
    assert (planned.negatives.sampler, planned.negatives.count) == ("bernoulli", 1)
    assert planned.model.vector_start == ("uniform" if dataset == "wn18rr" else "normal")


def test_the_two_forms_of_capse_differ_as_the_programs_do():
    for dataset, start in (("wn18rr", "normal"), ("fb15k-237", "translation")):
        ours, theirs = recipe(f"capse-{dataset}"), recipe(f"capse-released-{dataset}")
        assert (ours.model.variant, ours.loss.name, ours.loss.reduction) == ("paper", "softplus", "sum")
        assert (theirs.model.variant, theirs.loss.name, theirs.loss.reduction) == (
            "released",
            "squared_softplus",
            "mean",
        )
        assert (theirs.model.filter_start, theirs.model.readout) == (start, "sigmoid")
        assert theirs.training.draw == "replacement"


def test_the_two_trainings_of_convkb_differ_as_the_programs_do():
    for dataset, start in (("wn18rr", "normal"), ("fb15k-237", "translation")):
        ours, theirs = recipe(f"convkb-{dataset}"), recipe(f"convkb-released-{dataset}")
        assert (ours.loss.name, ours.loss.reduction) == ("softplus", "sum")
        assert (theirs.loss.name, theirs.loss.reduction) == ("softplus", "mean")
        assert ours.regularizer.weights == theirs.regularizer.weights == 0.001
        assert (theirs.model.filter_start, theirs.model.weight_start) == (start, "xavier")
        assert theirs.training.draw == "replacement"


def test_what_a_part_needs():
    assert needed(PLAN, "table1") == []
    assert needed(PLAN, "all") == list(PLAN)
    assert needed(PLAN, "table2") + needed(PLAN, "table3") == list(PLAN)
    assert {experiment.dataset for experiment in needed(PLAN, "figure2")} == {"fb15k-237"}
    assert {experiment.model for experiment in needed(PLAN, "figure3")} == {"CapsE", "ConvKB"}
    assert all(needed(PLAN, part) is not None for part in PARTS)


def test_only_what_a_part_shows_can_be_chosen():
    assert choose(PLAN, "table3") == needed(PLAN, "table3")
    assert choose(PLAN, "all", ["conve-wn18rr", "conve-wn18rr"]) == [named(PLAN, "conve-wn18rr")]
    with pytest.raises(
        SettingsError, match="table3 does not show distmult-wn18rr, which --only names: choose from cap"
    ):
        choose(PLAN, "table3", ["capse-m1-wn18rr", "distmult-wn18rr"])
    with pytest.raises(SettingsError, match=r"table1 does not show conve-wn18rr, .*: nothing is trained for it"):
        choose(PLAN, "table1", ["conve-wn18rr"])
    with pytest.raises(UnknownNameError, match="unknown experiment 'conve'"):
        choose(PLAN, "table3", ["conve"])


def test_one_row_for_each_kind_of_settings():
    for dataset in ("wn18rr", "fb15k-237"):
        assert [each.settings for each in find(PLAN, "CapsE", dataset)] == ["paper", "released", "own"]
        assert [each.settings for each in find(PLAN, "ConvKB", dataset)] == ["paper", "released"]


def test_starts_come_first_and_once():
    names = [experiment.name for experiment in with_starts(PLAN, needed(PLAN, "all"))]
    assert sorted(names) == sorted(experiment.name for experiment in PLAN)
    for experiment in PLAN:
        for start in experiment.starts.values():
            assert names.index(start) < names.index(experiment.name)


def test_names_that_do_not_exist():
    with pytest.raises(UnknownNameError, match="unknown experiment 'capse-wn18r': did you mean 'capse-wn18rr'"):
        named(PLAN, "capse-wn18r")
    with pytest.raises(UnknownNameError, match="unknown table or figure 'table5': did you mean"):
        needed(PLAN, "table5")
