import json
from pathlib import Path

import pytest

from capse_paper.findings.collect import collect
from capse_paper.findings.targets import TARGETS
from capse_paper.plans.graphs import PLAN
from capse_paper.recorded.runs import Results, departures
from capse_paper.report.block import Block
from capse_paper.report.page import render, write_report

ROOT = Path(__file__).parents[3]
NAMES = ("realistic", "optimistic", "pessimistic")


@pytest.fixture(autouse=True)
def no_data(monkeypatch, tmp_path):
    monkeypatch.delenv("CAPSE_DATA", raising=False)
    monkeypatch.setenv("CAPSE_CACHE", str(tmp_path / "cache"))


def test_the_page_is_well_formed_and_needs_nothing_else(planted_results, read_page):
    text = render(collect(planted_results, PLAN))
    page = read_page(text)
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in page.elements}
    assert "http" not in text.replace("http://www.w3.org/", "")
    assert "<processor>" not in text
    assert "a <processor>" in page.prose


def test_every_section_is_there(planted_results, read_page):
    page = read_page(render(collect(planted_results, PLAN)))
    for words in (
        "What was to be reached",
        "What matches and what does not",
        "Why the published FB15k-237 row of CapsE cannot be had honestly",
        "The paper's claims",
        "How this was measured",
        "Runs, settings and origin",
        "Seeds: 0, 1.",
        "0123456789ab",
        "missed by 7.0",
        "not recorded",
    ):
        assert words in page.prose, words
    assert len(page.all("svg")) == 4


def test_a_report_of_nothing_is_sensible(writer, read_page):
    page = read_page(render(collect(Results(writer.folder), PLAN)))
    assert "No run is recorded." in page.prose
    assert "none recorded yet" in page.prose
    assert "No run of CapsE or ConvKB on FB15k-237 is recorded yet." in page.prose
    assert f", 0 reached it, 0 did not and {len(TARGETS)} are not recorded" in page.prose


def test_what_ties_are_worth_is_said_in_words(writer, read_page):
    writer.add("capse-released-fb15k-237", mrr=0.15)  # optimistic .25, pessimistic .05
    page = read_page(render(collect(Results(writer.folder), PLAN)))
    assert "CapsE, released settings: MRR 0.150, which the published way to count ties makes 0.250: 40%" in page.prose
    assert "With all ties against the true answer it is 0.050." in page.prose


def test_ties_that_grow_with_training_are_shown(writer, read_page):
    planted = [(1, 0.20, 0.22, 0.18), (2, 0.15, 0.40, 0.10)]
    looks = [
        {
            "epoch": epoch,
            "validation": {policy: {"mrr": mrr, "hits@10": mrr} for policy, mrr in zip(NAMES, mrrs, strict=True)},
        }
        for epoch, *mrrs in planted
    ]
    content = {"what": "CapsE, begun", "command": "capse train", "commit": "abc", "planned": 31, "looks": looks}
    (writer.folder / "ties.json").write_text(json.dumps(content | {"machine": {"processor": "a processor"}}))
    page = read_page(render(collect(Results(writer.folder), PLAN)))
    assert "CapsE, begun (2 of 31 epochs)." in page.prose
    assert "best at epoch 1 when ties are shared (0.200), and at epoch 2 when they count for the true" in page.prose
    assert "At that epoch shared ties give 0.150, and ties against the true answer 0.100. Whoever counts" in page.prose
    assert "tie-curve" in render(collect(Results(writer.folder), PLAN))


def test_what_was_tried_is_told(writer, read_page):
    (writer.folder / "tried.md").write_text("## TransE\n\nMany <things>\nwere tried.\n\n* one,\n  at length\n* two\n")
    page = read_page(render(collect(Results(writer.folder), PLAN)))
    assert "What was tried" in page.words
    for words in ("TransE", "Many <things> were tried.", "one, at length", "two"):
        assert words in page.prose


def test_a_run_with_other_settings_is_pointed_out(writer, read_page):
    writer.add("transe-wn18rr", 0)
    page = read_page(render(collect(Results(writer.folder), PLAN)))
    assert "No recorded run departs from the plan." in page.prose
    writer.add("transe-wn18rr", 1, training__epochs=7)
    page = read_page(render(collect(Results(writer.folder), PLAN)))
    assert "No recorded run departs from the plan." not in page.prose
    assert "runs/transe-wn18rr/seed-1 departs from the plan: training.epochs: 7, not " in page.prose
    assert "Seed 1 differs from the plan's recipe: training.epochs: 7, not " in page.prose
    assert "Seed 0 differs" not in page.prose


def test_a_table_points_out_only_the_runs_it_shows(writer):
    writer.add("capse-m3-wn18rr", training__epochs=7)
    found = {part: collect(Results(writer.folder), PLAN, part).departures for part in ("table2", "table3", "all")}
    assert [len(lines) for lines in found.values()] == [0, 1, 1]


def test_what_a_row_starts_from_is_told(writer, read_page):
    writer.add("capse-fb15k-237")
    assert "Starts from transe-fb15k-237, same seed." in render(collect(Results(writer.folder), PLAN))


def test_where_ties_are_worth_most_is_said(writer, read_page):
    """Planted: the heads of M-1 relations tie, and nothing else does."""
    path = writer.add("convkb-fb15k-237", mrr=0.2) / "evaluation.json"
    stored = json.loads(path.read_text())
    heads = stored["breakdowns"]["category"]["M-1"]["head"]
    heads["realistic"]["hits@10"], heads["optimistic"]["hits@10"] = 0.07, 0.33
    path.write_text(json.dumps(stored))
    page = read_page(render(collect(Results(writer.folder), PLAN)))
    assert (
        "Ties are worth most for ConvKB (paper), the head of M-1 relations: Hits@10 is 7.0 %, and 33.0 % with ties "
        "counted for the true answer; the paper prints 49.5 %." in page.prose
    )


def test_the_same_records_give_the_same_file(planted_results, tmp_path):
    for name in ("one", "two"):
        write_report(collect(planted_results, PLAN), tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_label_that_repeats_is_left_out_in_text():
    block = Block("t", ("a", "b", "x"), [("p", "q", "1"), ("p", "r", "1"), ("s", "r", "1")], labels=2)
    assert [line.split() for line in block.to_text().splitlines()[4:]] == [["p", "q", "1"], ["r", "1"], ["s", "r", "1"]]


@pytest.mark.skipif(not list((ROOT / "results" / "runs").glob("*/seed-*")), reason="no run is recorded by seed yet")
def test_the_recorded_runs_of_this_repository_are_the_plans(read_page):
    found = collect(Results(ROOT / "results"), PLAN)
    read_page(render(found))
    for experiment in PLAN:
        for record in found.results.records(experiment):
            assert departures(experiment, record) == [], record.folder
    assert found.departures == []
