"""The plan says what the paper says."""

from __future__ import annotations

import pytest

from capse.errors import SettingsError, UnknownNameError
from capse.experiments.recipe import Recipe
from capse.experiments.refine_recipe import refine_recipe
from capse.training.batches import steps_per_epoch
from capse.training.optimizers import Optimizer
from capse_paper.findings.paper import STATISTICS
from capse_paper.plans.graphs import PARTS, PLAN, choose, find, named, needed, with_starts


def recipe(name):
    experiment = named(PLAN, name)
    return Recipe.resolve(experiment.recipe, data=experiment.dataset, overrides=list(experiment.overrides))


def test_names_are_folders_of_their_own():
    names = [experiment.name for experiment in PLAN]
    assert len(set(names)) == len(names)
    assert all(experiment.name.endswith(experiment.dataset) for experiment in PLAN)


TRAINED = [experiment for experiment in PLAN if not experiment.refines]


@pytest.mark.parametrize("experiment", TRAINED, ids=lambda experiment: experiment.name)
def test_every_recipe_is_that_of_its_model_and_data(experiment):
    planned = recipe(experiment.name)
    own_capse = experiment.model == "CapsE" and experiment.settings == "own"
    kbgan = "transd" if (experiment.settings, experiment.dataset) == ("paper", "fb15k-237") else "transe"
    kept = {
        "KBGAN": kbgan,
        "KBGAN's generator": "distmult",
        "Capsules from ComplEx": "complex-capse",
        "M3GM's association": "transe",
        "ComplEx, rank 64": "complex",
    }
    named_so = kept.get(experiment.model, experiment.model.lower().removesuffix(" before kbgan"))
    assert planned.model_name == ("scaled-capse" if own_capse else named_so)
    assert Recipe.resolve(experiment.recipe).data in (None, experiment.dataset)
    starts = [named(PLAN, name) for name in experiment.starts.values()]
    assert all(start.dataset == experiment.dataset for start in starts)
    starts = [start for start in starts if start.name != experiment.adversary]
    if planned.model_name == "complex-capse":
        sizes = [recipe(start.name).model.dim for start in starts]
        assert sizes == [planned.model.dim, planned.model.distance_dims]
    elif starts:
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


@pytest.mark.parametrize(
    ("dataset", "kept", "batch", "decay"), [("wn18rr", "transe", 868, 1e-3), ("fb15k-237", "transd", 2721, 1e-2)]
)
def test_kbgan_follows_its_protocol(dataset, kept, batch, decay):
    """Cai and Wang 2018 and their program, as the notes on the paper have it."""
    alone, generator, both = (recipe(f"kbgan-{name}{dataset}") for name in (f"{kept}-", "distmult-", ""))
    train = STATISTICS[dataset]["train"]
    for planned in (alone, generator, both):
        assert planned.optimizer == Optimizer("adam", embedding_decay=planned.optimizer.embedding_decay)
        assert planned.training.learning_rate == 1e-3
        assert train // 100 == batch == planned.training.batch_size - 1
        assert steps_per_epoch(range(train), planned.training.batch_size) == 100
        assert (planned.model.dim, planned.model.reciprocal) == (50, False)
        assert (planned.negatives.sampler, planned.negatives.filtered) == ("bernoulli", False)
        assert (planned.validation.metric, planned.validation.patience, planned.loss.reduction) == ("mrr", 0, "sum")
    assert [planned.training.epochs for planned in (alone, generator, both)] == [1000, 1000, 5000]
    assert [planned.validation.every for planned in (alone, generator, both)] == [50, 50, 100]
    assert alone.model == both.model
    assert (alone.model.norm, alone.model.unit_ball) == (1, True)
    assert (alone.model.bounded, alone.model.vector_start) == ("all", "sphere")
    assert all((x.loss.name, x.loss.margin, x.negatives.count) == ("margin", 3.0, 1) for x in (alone, both))
    assert (generator.loss.name, generator.negatives.count, generator.negatives.one_side) == ("softmax", 19, True)
    assert generator.model.vector_start == "normal"
    assert generator.optimizer.embedding_decay == both.adversary.embedding_decay == decay
    assert alone.optimizer.embedding_decay == both.optimizer.embedding_decay == 0
    assert (both.adversary.model, both.adversary.candidates, both.adversary.learning_rate) == ("distmult", 20, 1e-3)
    assert both.adversary.baseline == "epoch"
    experiment = named(PLAN, f"kbgan-{dataset}")
    assert experiment.start == experiment.against == f"kbgan-{kept}-{dataset}"
    assert experiment.adversary == f"kbgan-distmult-{dataset}"


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


def test_what_refines_has_a_refinement_for_a_recipe_and_is_compared_with_what_it_refines():
    refining = [experiment for experiment in PLAN if experiment.refines]
    over = {f"M3GM over {model}" for model in ("ComplEx", "ComplEx, rank 64", "CapsE")}
    assert {experiment.model for experiment in refining} == {"M3GM", *over}
    for experiment in refining:
        base = named(PLAN, experiment.refines)
        described = {"data": base.dataset, "model": recipe(base.name).to_mapping()["model"]}
        planned = refine_recipe(described, experiment.recipe, overrides=experiment.overrides)
        assert (planned.data, experiment.against) == (experiment.dataset, base.name)
        assert with_starts(PLAN, [experiment])[-2:] == [base, experiment]


def test_the_published_form_of_m3gm_is_what_is_known_of_it():
    """Pinter and Eisenstein, EMNLP 2018: a plain sum, ten negatives weighed by 1/q, clipped at 5, three epochs."""
    planned = refine_recipe({"data": "wn18rr", "model": {"name": "transe"}}, "m3gm-paper")
    chosen = planned.refinement
    assert (chosen.alpha, chosen.sides, chosen.self_loops, chosen.symmetric) == ("sum", "tail", False, False)
    assert (chosen.top, chosen.negatives, chosen.importance, chosen.legs) == (100, 10, True, False)
    assert (chosen.clip, chosen.penalty, planned.loss.margin) == (5, 0.01, 1)
    assert (planned.training.epochs, planned.training.learning_rate) == (3, 0.1)
