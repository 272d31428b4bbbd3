import json
import re
from dataclasses import replace

import pytest

from capse.errors import RunError
from capse.experiments.recipe import Recipe
from capse_paper.plans.graphs import PLAN, named
from capse_paper.recorded.runs import (
    Results,
    aggregate,
    departing,
    departures,
    of_groups,
    of_validation,
    ours,
)

TRANSE = named(PLAN, "transe-wn18rr")


def test_runs_come_in_the_order_of_their_seeds(writer):
    for seed in (10, 2, 0):
        writer.add("transe-wn18rr", seed)
    records = Results(writer.folder).records(TRANSE)
    assert [record.seed for record in records] == [0, 2, 10]
    assert records[1].folder == "runs/transe-wn18rr/seed-2"


def test_an_unfinished_run_is_not_there(writer):
    (writer.add("transe-wn18rr") / "results.json").unlink()
    assert Results(writer.folder).records(TRANSE) == []


def test_mean_and_deviation_over_seeds():
    tables = {seed: {"realistic": {"mrr": value}} for seed, value in enumerate((0.1, 0.2, 0.6))}
    found = aggregate(tables)["realistic"]["mrr"]
    assert found["mean"] == pytest.approx(0.3)
    assert found["std"] == pytest.approx((((0.2**2) + (0.1**2) + (0.3**2)) / 2) ** 0.5)  # n − 1
    assert found["seeds"] == [0, 1, 2]


def test_one_seed_has_no_deviation():
    assert aggregate({3: {"realistic": {"mrr": 0.1}}})["realistic"]["mrr"] == {"mean": 0.1, "std": None, "seeds": [3]}
    assert aggregate({}) is None


def test_groups_together_are_weighted_by_their_size(writer):
    folder = writer.add("transe-wn18rr", mrr=0.2)
    stored = json.loads((folder / "evaluation.json").read_text())
    for name, share, mrr in (("1-3", 0.3, 0.5), ("4-10", 0.1, 0.1)):
        group = stored["breakdowns"]["frequency"][name]
        group["share"] = share
        group["both"]["realistic"]["mrr"] = mrr
    (folder / "evaluation.json").write_text(json.dumps(stored))
    (record,) = Results(writer.folder).records(TRANSE)
    assert of_groups("frequency", ["1-3", "4-10"], "both")(record)["realistic"]["mrr"] == pytest.approx(0.4)
    assert of_groups("frequency", ["1-3"], "both")(record)["realistic"]["mrr"] == 0.5
    assert of_groups("frequency", ["never"], "both")(record) is None


def test_only_seeds_with_the_figure_count(writer):
    writer.add("capse-m1-wn18rr", 0, validations=[0.3, 0.4])
    writer.add("capse-m1-wn18rr", 1, validations=[0.5], evaluated=False)
    records = Results(writer.folder).records(named(PLAN, "capse-m1-wn18rr"))
    both, one = (ours(records, of_validation(epoch)) for epoch in (10, 20))
    assert both[0]["realistic"]["mrr"]["seeds"] == [0, 1]
    assert one[0]["realistic"]["mrr"] == {"mean": 0.4, "std": None, "seeds": [0]}
    assert one[1] == ["runs/capse-m1-wn18rr/seed-0"]
    assert ours(records, of_validation(30)) == (None, [])


def test_a_run_with_other_settings_than_the_plans_is_noticed(writer):
    writer.add("transe-wn18rr", 0, start__words="glove.txt", training__device="cpu")
    writer.add("transe-wn18rr", 1, training__epochs=7, loss__margin=2)
    planned = Recipe.resolve(TRANSE.recipe)
    first, second = Results(writer.folder).records(TRANSE)
    assert departures(TRANSE, first) == []
    assert departures(TRANSE, second) == [
        f"training.epochs: 7, not {planned.training.epochs}",
        f"loss.margin: 2.0, not {planned.loss.margin}",
    ]


def test_a_setting_that_is_newer_than_the_run_is_no_departure(writer):
    writer.add("transe-wn18rr")
    (record,) = Results(writer.folder).records(TRANSE)
    older = {key: value for key, value in record.recipe["training"].items() if key != "precision"}
    assert departures(TRANSE, replace(record, recipe={**record.recipe, "training": older})) == []


@pytest.mark.parametrize(
    ("start", "departed"),
    [
        ("runs/transe-wn18rr/seed-1", []),
        ("/another/place/runs/transe-wn18rr/seed-1/", []),
        ("runs/transe-wn18rr/seed-0", ["start.run: runs/transe-wn18rr/seed-0, not transe-wn18rr/seed-1"]),
        ("runs/transe/seed-1", ["start.run: runs/transe/seed-1, not transe-wn18rr/seed-1"]),
        ("null", ["start.run: None, not transe-wn18rr/seed-1"]),
    ],
)
def test_a_run_must_start_from_the_planned_run_of_its_seed(writer, start, departed):
    writer.add("capse-wn18rr", 1, start__run=start)
    experiment = named(PLAN, "capse-wn18rr")
    (record,) = Results(writer.folder).records(experiment)
    assert departures(experiment, record) == departed


def test_a_run_that_should_start_at_random_must(writer):
    experiment = named(PLAN, "distmult-wn18rr")
    writer.add("distmult-wn18rr", start__run="runs/transe-wn18rr/seed-0")
    (record,) = Results(writer.folder).records(experiment)
    assert departures(experiment, record) == ["start.run: runs/transe-wn18rr/seed-0, not None"]


def test_a_run_that_starts_from_two_is_held_against_both(writer):
    experiment = named(PLAN, "capse-own-wn18rr")
    writer.add("capse-own-wn18rr", 0)
    writer.add("capse-own-wn18rr", 1, start__beside="runs/transe-wn18rr/seed-0")
    first, second = Results(writer.folder).records(experiment)
    assert departures(experiment, first) == []
    assert departures(experiment, second) == ["start.beside: runs/transe-wn18rr/seed-0, not transe-wn18rr/seed-1"]


def test_every_seed_is_held_against_the_plan(writer):
    writer.add("capse-wn18rr", 0)
    writer.add("capse-wn18rr", 1, training__learning_rate=0.5, start__run="x/y")
    writer.add("capse-wn18rr", 2)
    assert departing(Results(writer.folder), PLAN) == [
        "runs/capse-wn18rr/seed-1 departs from the plan: "
        "training.learning_rate: 0.5, not 1e-05; start.run: x/y, not transe-wn18rr/seed-1"
    ]


def test_nothing_recorded(tmp_path):
    with pytest.raises(RunError, match=r"no recorded runs in .*nowhere.*: call this in a checkout .* --results"):
        Results(tmp_path / "nowhere").records(TRANSE)


def test_a_damaged_file(writer):
    folder = writer.add("transe-wn18rr")
    (folder / "evaluation.json").write_text("{")
    with pytest.raises(RunError, match=r"evaluation\.json is damaged"):
        Results(writer.folder).records(TRANSE)


def without(content, *keys):
    """A copy of nested mappings that lacks one key."""
    first, *rest = keys
    if not rest:
        return {key: value for key, value in content.items() if key != first}
    return {**content, first: without(content[first], *rest)}


@pytest.mark.parametrize("name", ["results.json", "evaluation.json", "recipe.yaml", "metrics.jsonl"])
@pytest.mark.parametrize("content", ["{}\n", '{"metrics": {}, "training": 3, "epoch": null}\n'])
def test_a_readable_but_incomplete_file_is_named(writer, name, content):
    (writer.add("transe-wn18rr", validations=[0.3]) / name).write_text(content)
    with pytest.raises(RunError, match=rf"{name} is (incomplete: it has no|damaged: epoch)") as caught:
        Results(writer.folder).records(TRANSE)
    assert "restore it, or delete the folder and train again" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("results.json", ("machine", "threads")),
        ("results.json", ("best_validation", "hits@10")),
        ("results.json", ("versions",)),
        ("evaluation.json", ("metrics", "both", "pessimistic", "mrr")),
        ("evaluation.json", ("seconds",)),
        ("evaluation.json", ("intervals", "both", "realistic", "mrr")),
        ("evaluation.json", ("breakdowns", "frequency")),
        ("evaluation.json", ("breakdowns", "category", "M-1", "tail", "expected", "hits@10")),
        ("evaluation.json", ("breakdowns", "relation", "_hypernym", "share")),
    ],
)
def test_a_key_that_is_missing_is_named(writer, name, keys):
    path = writer.add("transe-wn18rr") / name
    path.write_text(json.dumps(without(json.loads(path.read_text()), *keys)))
    with pytest.raises(RunError, match=re.escape(f"{name} is incomplete: it has no {'.'.join(keys)}: restore it")):
        Results(writer.folder).records(TRANSE)


def test_a_figure_that_is_no_number(writer):
    path = writer.add("transe-wn18rr") / "evaluation.json"
    stored = json.loads(path.read_text())
    stored["metrics"]["both"]["realistic"]["mrr"] = None
    path.write_text(json.dumps(stored))
    with pytest.raises(RunError, match=r"evaluation\.json is damaged: metrics\.both\.realistic\.mrr is not what"):
        Results(writer.folder).records(TRANSE)


def test_a_run_in_the_wrong_folder(writer):
    folder = writer.add("transe-wn18rr", 3)
    folder.rename(folder.with_name("seed-0"))
    with pytest.raises(RunError, match="holds a run with seed 3 on wn18rr: only runs on wn18rr belong there"):
        Results(writer.folder).records(TRANSE)
    folder.with_name("seed-0").rename(folder.with_name("seed-3"))
    (folder.parent).rename(folder.parent.with_name("transe-fb15k-237"))
    with pytest.raises(RunError, match="seed 3 on wn18rr: only runs on fb15k-237"):
        Results(writer.folder).records(named(PLAN, "transe-fb15k-237"))
