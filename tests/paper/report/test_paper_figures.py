from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.image import imread

from capse_paper.findings.rows import figure2 as rows2
from capse_paper.findings.rows import figure3 as rows3
from capse_paper.plans.graphs import PLAN
from capse_paper.recorded.runs import Results
from capse_paper.report.figures import figure2, figure3, save_figure


def bars(axes: Axes) -> list[Any]:
    """Rectangles, which matplotlib knows as patches of any shape."""
    return list(axes.patches)


def diamonds(axes):
    """Where the paper's figures are drawn, by series."""
    return [line for line in axes.lines if line.get_marker() == "D" and len(line.get_xdata())]


def test_figure_2_draws_the_rows(planted_results):
    rows = rows2(planted_results, PLAN)
    head, tail, head_mrr, tail_mrr = figure2(rows).axes
    for axes, side, metric, scale in (
        (head, "head", "hits@10", 100),
        (tail, "tail", "hits@10", 100),
        (head_mrr, "head", "mrr", 1),
        (tail_mrr, "tail", "mrr", 1),
    ):
        drawn = [bar.get_height() for bar in bars(axes)]
        series = [("CapsE", "paper"), ("CapsE", "released"), ("ConvKB", "paper")]  # our own is not in the figure
        chosen = [[r for r in rows if (r["model"], r["settings"], r["side"]) == (*s, side)] for s in series]
        expected = [scale * row["ours"]["realistic"][metric]["mean"] for part in chosen for row in part]
        assert drawn == pytest.approx(expected)
        printed = [scale * row["paper"][metric] for part in (chosen[0], chosen[2]) for row in part]
        assert [y for line in diamonds(axes) for y in line.get_ydata()] == pytest.approx(printed)
    assert [label.get_text() for label in tail_mrr.get_xticklabels()] == ["1-1", "1-M", "M-1", "M-M"]


def test_every_form_has_a_look_of_its_own(writer):
    """Both forms of both models recorded: colour and hatching tell them apart."""
    for name in ("capse-wn18rr", "capse-released-wn18rr", "convkb-wn18rr", "convkb-released-wn18rr"):
        writer.add(name)
    bars = figure3(rows3(Results(writer.folder), PLAN)).axes[0].patches[::11]
    assert len({bar.get_facecolor() for bar in bars}) == len({bar.get_hatch() for bar in bars}) == 4


def test_a_line_reaches_from_pessimistic_to_optimistic(planted_results):
    axes = figure2(rows2(planted_results, PLAN)).axes[2]
    errors: Any = axes.containers[1]
    (segment, *_) = errors.lines[2][0].get_segments()
    assert segment[:, 1] == pytest.approx([0.55, 0.75])  # 0.65 ± 0.1


def test_figure_3_draws_the_rows(planted_results):
    hits, mrr, shares = figure3(rows3(planted_results, PLAN)).axes
    assert [bar.get_width() for bar in bars(hits)] == pytest.approx([51] * 11 + [35] * 11)
    assert [bar.get_width() for bar in bars(mrr)] == pytest.approx([0.41] * 11 + [0.25] * 11)
    assert [round(bar.get_width(), 1) for bar in bars(shares)] == [
        39.9,
        34.3,
        8.1,
        5.5,
        3.9,
        3.6,
        1.8,
        1.2,
        0.8,
        0.8,
        0.1,
    ]
    assert hits.get_yticklabels()[0].get_text() == "hypernym"
    assert hits.yaxis_inverted()


def test_bars_differ_without_colour(planted_results):
    axes = figure2(rows2(planted_results, PLAN)).axes[0]
    assert len({bar.get_hatch() for bar in axes.patches}) == 3


def test_what_is_not_recorded_is_said_and_the_paper_stays(writer):
    figure = figure2(rows2(Results(writer.folder), PLAN))
    assert all(np.isnan(bar.get_height()) for bar in bars(figure.axes[0]))
    assert len(diamonds(figure.axes[0])) == 2
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["CapsE (not recorded)", "ConvKB (not recorded)", "as the paper prints"]


def test_files_open_and_are_large_enough_for_print(planted_results, tmp_path):
    for part, rows in (("figure2", rows2(planted_results, PLAN)), ("figure3", rows3(planted_results, PLAN))):
        png, svg = save_figure(part, rows, tmp_path / "figures")
        height, width, _ = imread(png).shape
        assert width >= 1400
        assert height >= 1000
        assert ElementTree.parse(svg).getroot().tag.endswith("svg")
        assert svg.read_bytes() == save_figure(part, rows, tmp_path / "again")[1].read_bytes()
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == [
        "figure2.png",
        "figure2.svg",
        "figure3.png",
        "figure3.svg",
    ]


def test_letters_are_readable_in_print(planted_results):
    figure = figure3(rows3(planted_results, PLAN))
    assert min(float(label.get_fontsize()) for axes in figure.axes for label in axes.get_yticklabels()) >= 9
