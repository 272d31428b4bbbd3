import pytest

from capse_paper.findings.targets import TARGETS, Target, outcomes
from capse_paper.plans.graphs import PLAN, find
from capse_paper.recorded.runs import Results


@pytest.mark.parametrize(
    ("metric", "value", "reached", "short"),
    [
        ("mrr", 0.245, True, 0),
        ("mrr", 0.2425, True, 0.0025),  # within .003
        ("mrr", 0.2420, True, 0.003),
        ("mrr", 0.2410, False, 0.004),
        ("mr", 743, True, 0),
        ("mr", 743.5, False, 0.5),
        ("mr", 500, True, 0),
    ],
)
def test_reached_or_missed_by_how_much(metric, value, reached, short):
    target = Target("TransE", "wn18rr", "paper", {"mr": 743, "mrr": 0.245})
    assert target.reached(metric, value) is reached
    assert target.short_by(metric, value) == pytest.approx(short)


def test_above_means_above():
    target = Target("ConvKB", "fb15k-237", "paper", {"mrr": 0.243}, above=True)
    assert not target.reached("mrr", 0.243)
    assert target.reached("mrr", 0.2431)


def test_outcomes(planted_results):
    found = {(row["model"], row["dataset"], row["settings"]): row for row in outcomes(planted_results, PLAN)}
    transe = found["TransE", "wn18rr", "paper"]  # MRR .25, Hits@10 35, MR 750
    assert transe["reached"] is False
    assert transe["goals"]["mrr"]["reached"] is True
    assert transe["goals"]["hits@10"]["short_by"] == pytest.approx(0.21)
    assert transe["goals"]["mr"]["short_by"] == pytest.approx(7)
    assert found["CapsE", "fb15k-237", "paper"]["reached"] is True
    assert found["ConvKB", "fb15k-237", "paper"]["goals"]["mrr"]["reached"] is False
    assert found["CapsE", "wn18rr", "own"]["reached"] is None


def test_the_seeds_that_reach_a_line_are_counted(writer):
    """.40, .30 and .44 against .415: one by itself, and the mean does not."""
    for seed, mrr in enumerate((0.40, 0.30, 0.44)):
        writer.add("capse-released-wn18rr", seed, mrr=mrr)
    (row,) = (
        row
        for row in outcomes(Results(writer.folder), PLAN)
        if (row["model"], row["dataset"], row["settings"]) == ("CapsE", "wn18rr", "released")
    )
    assert row["goals"]["mrr"]["seeds_that_reach"] == 1
    assert row["goals"]["mrr"]["reached"] is False


def test_every_target_has_one_experiment():
    for target in TARGETS:
        assert len(find(PLAN, target.model, target.dataset, target.settings)) == 1
