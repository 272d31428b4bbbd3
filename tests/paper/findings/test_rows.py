import json

import pytest

from capse.errors import RunError
from capse_paper.findings.collect import collect
from capse_paper.findings.rows import figure2, figure3, table1, table2, table3
from capse_paper.plans.graphs import PLAN, Experiment
from capse_paper.recorded.runs import Results
from capse_paper.report.blocks import blocks

KEYS = ["model", "dataset", "settings", "recipe", "start", "beside", "paper", "ours", "runs"]
POLICIES = ["optimistic", "realistic", "pessimistic", "expected"]


def test_table_2_has_every_row_of_the_paper_and_ours_beside(planted_results):
    rows = table2(planted_results, PLAN)
    more = {"KBGAN": ["adversary", "paired"], "Capsules from ComplEx": ["paired"]}
    refined = ("M3GM", "M3GM, released protocol", "M3GM over ComplEx, rank 64", "M3GM over ComplEx", "M3GM over CapsE")
    more |= {model: ["refines", "paired"] for model in refined}
    assert all(list(row) == [*KEYS, *more.get(row["model"], [])] for row in rows)
    named = [(row["model"], row["settings"]) for row in rows if row["dataset"] == "wn18rr"]
    assert named == [
        ("DISTMULT", "own"),
        ("ComplEx", "own"),
        ("ConvE", "own"),
        ("KBGAN", "paper"),
        ("KBGAN", "own"),
        ("TransE before KBGAN", "paper"),
        ("M3GM", "paper"),
        ("M3GM", "own"),
        ("M3GM, released protocol", "paper"),
        ("M3GM, released protocol", "own"),
        ("M3GM's association", "paper"),
        ("M3GM's association", "own"),
        ("ComplEx, rank 64", "own"),
        ("M3GM over ComplEx, rank 64", "own"),
        ("M3GM over ComplEx", "own"),
        ("M3GM over CapsE", "own"),
        ("TransE", "paper"),
        ("TransE", "own"),
        ("ConvKB", "paper"),
        ("ConvKB", "released"),
        ("CapsE", "paper"),
        ("CapsE", "released"),
        ("CapsE", "own"),
        ("Capsules from ComplEx", "own"),
    ]
    named.remove(("Capsules from ComplEx", "own"))
    named[named.index(("TransE before KBGAN", "paper"))] = ("TransD before KBGAN", "paper")
    for model in ("M3GM", "M3GM, released protocol", "M3GM's association"):
        named.remove((model, "paper"))  # nothing is published
    assert named == [(row["model"], row["settings"]) for row in rows if row["dataset"] == "fb15k-237"]


def test_a_recorded_row(planted_results):
    wanted = ("TransE", "wn18rr", "paper")
    (row,) = (r for r in table2(planted_results, PLAN) if (r["model"], r["dataset"], r["settings"]) == wanted)
    assert row["recipe"] == "transe-wn18rr"
    assert row["paper"] == {"mr": 743, "mrr": 0.245, "hits@10": 0.560}
    assert list(row["ours"]) == POLICIES
    for policy, tie in zip(POLICIES, (0.1, 0, -0.1, 0.02), strict=True):
        assert list(row["ours"][policy]) == ["mr", "mrr", "hits@1", "hits@3", "hits@10"]
        found = row["ours"][policy]["mrr"]
        assert found["mean"] == pytest.approx(0.25 + tie)
        assert found["std"] == pytest.approx(0.02 / 2**0.5)
        assert found["seeds"] == [0, 1]
    assert row["runs"] == ["runs/transe-wn18rr/seed-0", "runs/transe-wn18rr/seed-1"]


def test_figures_that_the_paper_leaves_out_are_null(planted_results):
    (row,) = (r for r in table2(planted_results, PLAN) if (r["model"], r["dataset"]) == ("M3GM", "fb15k-237"))
    assert row["paper"] == {"mr": None, "mrr": None, "hits@10": None}


def test_a_data_set_that_the_paper_lacks_comes_last(planted_results):
    plan = [Experiment("x", "TransE", "countries", "own", "transe")]
    row = table2(planted_results, plan)[-1]
    assert (row["dataset"], row["paper"], row["ours"]) == ("countries", {}, None)


def test_table_3(planted_results):
    rows = {(row["settings"], row["m"], row["epoch"]): row for row in table3(planted_results, PLAN)}
    cells = [(m, epoch) for m in (1, 3, 5, 7) for epoch in (10, 20, 30, 40, 50)]
    assert list(rows) == [(settings, *cell) for settings in ("paper", "released") for cell in cells]
    assert rows["paper", 5, 30]["paper"] == rows["released", 5, 30]["paper"] == {"hits@10": 0.4580}
    assert rows["paper", 3, 20]["ours"]["realistic"]["hits@10"]["mean"] == pytest.approx(0.3 + 0.01 + 0.1)
    assert rows["paper", 3, 20]["split"] == "valid"
    assert rows["paper", 7, 50]["ours"] is None
    assert rows["released", 3, 20]["ours"] is None
    assert len(table3(planted_results, [])) == 20


def test_figure_2(planted_results):
    rows = figure2(planted_results, PLAN)
    assert len(rows) == 2 * 4 * 5  # sides, categories, forms of CapsE and ConvKB
    capse = {
        (row["side"], row["category"]): row for row in rows if row["settings"] == "paper" and row["model"] == "CapsE"
    }
    assert capse["head", "M-1"]["paper"] == {"hits@10": 0.5978, "mrr": 0.594}
    assert capse["tail", "1-1"]["ours"]["realistic"]["mrr"]["mean"] == pytest.approx(0.65)  # the first group is shifted
    assert capse["tail", "M-M"]["ours"]["realistic"]["mrr"]["mean"] == pytest.approx(0.45)


def test_figure_3(planted_results):
    rows = figure3(planted_results, PLAN)
    assert len(rows) == 11 * 5
    wanted = ("verb_group", "ConvKB", "paper")
    (row,) = (r for r in rows if (r["relation"], r["model"], r["settings"]) == wanted)
    assert row["paper"] == {"hits@10": 0.974, "mrr": 0.368, "share": 0.012}
    assert row["share"] == 0.012
    assert row["ours"]["realistic"]["mrr"]["mean"] == pytest.approx(0.25)
    assert {row["share"] for row in rows if row["settings"] == "own"} == {None}


def test_rows_say_what_they_start_from(planted_results):
    starts = {(row["model"], row["dataset"], row["settings"]): row["start"] for row in table2(planted_results, PLAN)}
    assert starts["CapsE", "wn18rr", "paper"] == "transe-wn18rr"
    assert starts["CapsE", "fb15k-237", "paper"] == starts["ConvKB", "fb15k-237", "paper"] == "transe-fb15k-237"
    assert starts["CapsE", "fb15k-237", "own"] == "distmult-fb15k-237"
    assert starts["KBGAN", "wn18rr", "paper"] == "kbgan-transe-wn18rr"
    assert starts["DISTMULT", "wn18rr", "own"] is starts["M3GM", "wn18rr", "paper"] is None
    assert {row["start"] for row in table3(planted_results, PLAN)} == {"transe-wn18rr"}


def test_a_paired_test_is_shown_by_seed(writer):
    for seed, gain in enumerate((0.01, -0.02)):
        folder = writer.add("kbgan-wn18rr", seed)
        test = {"against": f"kbgan-transe-wn18rr/seed-{seed}", "difference": gain, "low": 0, "high": 1, "p_value": 0.03}
        (folder / "paired.json").write_text(json.dumps(test))
    rows = table2(Results(writer.folder), PLAN)
    (row,) = (row for row in rows if row["recipe"] == "kbgan-wn18rr")
    assert {seed: test["difference"] for seed, test in row["paired"].items()} == {"0": 0.01, "1": -0.02}
    assert row["adversary"] == "kbgan-distmult-wn18rr"
    shown = blocks("table2", rows)[-1].to_text()
    assert "kbgan-transe-wn18rr/seed-1" in shown
    assert "-0.0200  +0.0000 to +1.0000  0.03" in shown
    (folder / "paired.json").write_text(json.dumps({**test, "p_value": "small"}))
    with pytest.raises(RunError, match=r"paired.json is damaged: p_value is not what it should be"):
        table2(Results(writer.folder), PLAN)


def test_a_relation_that_no_evaluation_has_is_not_recorded(writer):
    path = writer.add("capse-wn18rr") / "evaluation.json"
    stored = json.loads(path.read_text())
    del stored["breakdowns"]["relation"]["_verb_group"]
    path.write_text(json.dumps(stored))
    rows = {
        row["relation"]: row
        for row in figure3(Results(writer.folder), PLAN)
        if (row["model"], row["settings"]) == ("CapsE", "paper")
    }
    assert (rows["verb_group"]["ours"], rows["verb_group"]["share"]) == (None, None)
    assert rows["hypernym"]["share"] is not None


def test_table_1_without_data(monkeypatch, tmp_path):
    monkeypatch.delenv("CAPSE_DATA", raising=False)
    monkeypatch.setenv("CAPSE_CACHE", str(tmp_path))
    assert [row["ours"] for row in table1()] == [None, None]


def test_a_part_reads_only_what_it_needs(planted_results):
    assert list(collect(planted_results, PLAN, "figure2").rows) == ["figure2"]
    assert collect(planted_results, PLAN, "claims").rows == {}
