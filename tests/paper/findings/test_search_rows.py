"""Table 4 and Figure 4 from records whose figures are planted."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from capse_paper.findings.search_rows import figure4, table4
from capse_paper.recorded.rankings import write_curve
from capse_paper.recorded.runs import Results
from capse_paper.report.blocks import blocks
from capse_paper.report.figures import figure4 as drawn

KEYS = ["model", "dataset", "settings", "recipe", "start", "beside", "history", "paper", "ours", "against", "runs"]
ORIGIN = {"command": "capse", "commit": "0", "date": "2026-01-01", "machine": {}, "versions": {}}


@pytest.fixture
def add(tmp_path):
    """Writes a record whose lists have these reciprocal ranks."""

    def write(log, method, ranks, *, settings="own", history="prequential", seed=0):
        mean = sum(ranks) / len(ranks)
        content = {"log": log, "method": method, "settings": settings, "history": history, "seed": seed}
        content |= {"recipe": None, "impressions": len(ranks), "reciprocal_ranks": ranks}
        content |= {"mrr": mean, "hits@1": mean / 2, "ndcg@10": mean, **ORIGIN}
        path = tmp_path / "search" / log / f"{method}-{settings}" / f"{history}-seed-{seed}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))

    return write


def rows_of(tmp_path, **chosen):
    rows = table4(Results(tmp_path))
    return [row for row in rows if all(row[key] == value for key, value in chosen.items())]


def test_the_papers_rows_are_there_with_nothing_recorded(tmp_path):
    rows = rows_of(tmp_path)
    assert all(list(row) == KEYS and row["ours"] is None and row["runs"] == [] for row in rows)
    printed = {row["model"]: row["paper"] for row in rows if row["dataset"] == "search17"}
    assert list(printed) == ["SE", "CI", "SP", "TransE (Vu et al. 2017)", "TransE", "ConvKB", "CapsE"]
    assert printed["CapsE"] == {"mrr": 0.766, "hits@1": 0.621}
    assert {row["history"] for row in rows if row["dataset"] == "gitsearch"} == {"prequential", "frozen"}
    assert all(row["paper"] == {} for row in rows if row["dataset"] == "gitsearch")


def test_mean_and_deviation_over_seeds(tmp_path, add):
    add("gitsearch", "capse", [0.5, 0.5], seed=0)
    add("gitsearch", "capse", [1.0, 0.5], seed=1)
    add("gitsearch", "capse", [0.1, 0.1], history="frozen")
    (row,) = rows_of(tmp_path, model="CapsE", dataset="gitsearch", history="prequential")
    assert row["ours"]["expected"]["mrr"] == {
        "mean": 0.625,
        "std": pytest.approx(0.25 / 2**0.5),
        "seeds": [0, 1],
    }
    assert row["runs"] == [f"search/gitsearch/capse-own/prequential-seed-{seed}.json" for seed in (0, 1)]
    (row,) = rows_of(tmp_path, model="CapsE", dataset="gitsearch", history="frozen")
    assert row["ours"]["expected"]["mrr"]["std"] is None


def test_a_row_is_tested_against_others_of_its_history(tmp_path, add):
    add("gitsearch", "se", [0.1, 0.2, 0.3, 0.4], settings="paper")
    add("gitsearch", "se", [0.9, 0.9, 0.9, 0.9], settings="paper", history="frozen")
    for seed in (0, 1):  # each list's mean over seeds is 0.5 above SE
        add("gitsearch", "capse", [0.5 + seed * 0.2, 0.6 + seed * 0.2, 0.7 + seed * 0.2, 0.8 + seed * 0.2], seed=seed)
    add("gitsearch", "sp", [0.3, 0.3, 0.5, 0.4])
    add("gitsearch", "blend", [0.4, 0.3, 0.6, 0.4])
    (capse,) = rows_of(tmp_path, model="CapsE", history="prequential", dataset="gitsearch")
    assert list(capse["against"]) == ["SE"]
    assert capse["against"]["SE"]["difference"] == pytest.approx(0.5)
    assert capse["against"]["SE"]["p_value"] < 1e-6
    (blend,) = rows_of(tmp_path, model="blend", history="prequential")
    assert blend["against"]["SP"]["difference"] == pytest.approx(0.05)
    (engine,) = rows_of(tmp_path, model="SE", history="prequential", dataset="gitsearch")
    assert engine["against"] is None


def test_other_methods_and_settings_have_rows_of_their_own(tmp_path, add):
    add("search17", "session-refinding", [0.5, 0.5])
    add("gitsearch", "capse", [0.5, 0.5], settings="paper")
    names = [(row["model"], row["settings"]) for row in rows_of(tmp_path, dataset="search17")]
    assert ("session re-finding", "own") in names
    settings = [row["settings"] for row in rows_of(tmp_path, model="CapsE", dataset="gitsearch", history="prequential")]
    assert settings == ["paper"]


def test_figure_4_has_a_curve_for_each_number_of_filters(tmp_path):
    for seed, peak in ((0, 0.6), (1, 0.8)):
        looks = {1: 0.2, 2: peak, 3: 0.3}
        lines = [{"epoch": epoch, "loss": 1.0, "validation": {"mrr": mrr}} for epoch, mrr in looks.items()]
        write_curve(tmp_path, "gitsearch", "capse", 400, lines, settings="paper", seed=seed)
    rows = figure4(Results(tmp_path))
    assert [row["filters"] for row in rows] == [50, 100, 200, 400, 500]
    (row,) = (row for row in rows if row["ours"])
    assert (row["filters"], row["best_epoch"]) == (400, 2)
    assert row["ours"]["expected"]["mrr"]["mean"] == pytest.approx(0.7)
    assert [look["mrr"] for look in row["curve"]] == pytest.approx([0.2, 0.7, 0.3])
    (axes,) = drawn(rows).axes
    drawn_lines: dict[Any, Any] = {line.get_label(): np.asarray(line.get_ydata()).tolist() for line in axes.lines}
    assert drawn_lines["N = 400"] == pytest.approx([0.2, 0.7, 0.3])
    assert "N = 50 (not recorded)" in drawn_lines


def test_people_see_figures_and_tests(tmp_path, add):
    add("search17", "se", [0.5, 0.25], settings="paper")
    add("search17", "click-through", [1.0, 0.75])
    (block,) = (b for b in blocks("table4", table4(Results(tmp_path))) if "search17" in b.title)
    text = block.to_text()
    assert "0.875" in text
    assert "+0.500 (p < 0.001)" in text
    assert "not recorded" in text
    (block,) = blocks("figure4", figure4(Results(tmp_path)))
    assert "not recorded" in block.to_text()
