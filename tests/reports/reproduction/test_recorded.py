import json
from dataclasses import replace

import pytest

from capse.errors import RunError
from capse.experiments.plan import PLAN, named
from capse.experiments.recipe import load_recipe
from capse.reports.reproduction.recorded import Results, aggregate, departures, of_groups, of_validation, ours

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
    writer.add("capse-m1-wn18rr", 0, looks=[0.3, 0.4])
    writer.add("capse-m1-wn18rr", 1, looks=[0.5], evaluated=False)
    records = Results(writer.folder).records(named(PLAN, "capse-m1-wn18rr"))
    both, one = (ours(records, of_validation(epoch)) for epoch in (10, 20))
    assert both[0]["realistic"]["mrr"]["seeds"] == [0, 1]
    assert one[0]["realistic"]["mrr"] == {"mean": 0.4, "std": None, "seeds": [0]}
    assert one[1] == ["runs/capse-m1-wn18rr/seed-0"]
    assert ours(records, of_validation(30)) == (None, [])


def test_a_run_with_other_settings_than_the_plans_is_noticed(writer):
    writer.add("transe-wn18rr", 0, start__words="glove.txt", training__device="cpu")
    writer.add("transe-wn18rr", 1, training__epochs=7, loss__margin=2)
    planned = load_recipe(TRANSE.recipe)
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


def test_nothing_recorded(tmp_path):
    with pytest.raises(RunError, match=r"no recorded runs in .*nowhere.*: call this in a checkout .* --results"):
        Results(tmp_path / "nowhere").records(TRANSE)


def test_a_damaged_file(writer):
    folder = writer.add("transe-wn18rr")
    (folder / "evaluation.json").write_text("{")
    with pytest.raises(RunError, match=r"evaluation\.json is damaged"):
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
