import io
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from capse.reports import figures
from capse.reports.figures import COLOURS, POLICIES
from capse.reports.svg import inline_svg


def planted_metrics(mrr):
    """MRR falls from the kindest policy to the harshest."""
    return {policy: {"mrr": mrr - 0.1 * place} for place, policy in enumerate(POLICIES)}


def planted_evaluation(mrr):
    sides = {side: planted_metrics(mrr) for side in ("both", "head", "tail")}
    groups = {"M-1": {"share": 0.25, **sides}, "M-M": {"share": 0.75, **sides}}
    return {
        "metrics": sides,
        "intervals": {"both": {"realistic": {"mrr": [mrr - 0.25, mrr - 0.15]}}},
        "breakdowns": {
            "category": groups,
            "frequency": {"0": {"share": 1.0, "both": planted_metrics(mrr)}},
            "relation": {f"r{i:02}": {"share": i / 210, **sides} for i in range(1, 21)},
        },
    }


@pytest.fixture
def evaluations():
    return {"TransE": planted_evaluation(0.6), "CapsE": planted_evaluation(0.8), "ConvKB": planted_evaluation(0.7)}


def heights(axes):
    return [round(bar.get_height(), 6) for bar in axes.patches]


def test_a_bar_for_each_policy_and_model(evaluations):
    (axes,) = figures.tie_policies(evaluations).axes
    assert heights(axes) == [0.6, 0.5, 0.4, 0.3, 0.8, 0.7, 0.6, 0.5, 0.7, 0.6, 0.5, 0.4]
    assert [label.get_text() for label in axes.get_xticklabels()] == list(POLICIES)
    assert [to_hex(bar.get_facecolor()).upper() for bar in axes.patches[::4]] == list(COLOURS[:3])


def test_intervals_stand_on_the_realistic_bars(evaluations):
    (axes,) = figures.tie_policies(evaluations).axes
    realistic = POLICIES.index("realistic")
    containers: list[Any] = axes.containers[3:]
    for container, model in zip(containers, range(3), strict=True):
        (segment,) = container.lines[2][0].get_segments()
        bar: Any = axes.patches[4 * model + realistic]
        assert segment[0][0] == pytest.approx(bar.get_x() + bar.get_width() / 2)
        assert segment[1][1] - segment[0][1] == pytest.approx(0.1)


def test_a_panel_for_each_side(evaluations):
    head, tail = figures.by_category(evaluations).axes
    assert len(head.patches) == len(tail.patches) == 6
    assert [label.get_text() for label in head.get_xticklabels()] == ["M-1\n(25%)", "M-M\n(75%)"]


def test_frequency(evaluations):
    (axes,) = figures.by_frequency(evaluations).axes
    assert heights(axes) == [0.4, 0.6, 0.5]


def test_the_most_frequent_relations_come_first(evaluations):
    (axes,) = figures.by_relation(evaluations, {"r20": "a name", "r19": "x" * 100}).axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert len(labels) == 15
    assert len(axes.patches) == 45
    assert labels[0] == "a name (10%)"
    assert labels[1].startswith("…")
    assert len(labels[1]) < 40
    assert axes.yaxis_inverted()


def test_learning_curves():
    history = [{"epoch": epoch, "loss": 5.0 - epoch} for epoch in range(1, 5)]
    for line, mrr in zip(history[1::2], (0.5, 0.4), strict=True):
        line |= {"validation": planted_metrics(mrr), "best_epoch": 2}
    loss, quality = figures.learning_curves(history).axes
    assert np.asarray(loss.lines[0].get_xydata()).tolist() == [[1, 4], [2, 3], [3, 2], [4, 1]]
    curve, best = quality.lines
    assert curve.get_ydata() == pytest.approx([0.3, 0.2])
    assert best.get_xdata() == [2]
    (band,) = quality.collections
    low, high = band.get_datalim(quality.transData).intervaly
    assert (low, high) == pytest.approx((0.1, 0.5))


def test_a_history_without_validation():
    loss, quality = figures.learning_curves([{"epoch": 1, "loss": 1.0}]).axes
    assert len(loss.lines) == 1
    assert not np.size(quality.lines[0].get_xdata())


def test_figures_can_be_saved_as_pictures(evaluations):
    file = io.BytesIO()
    figures.tie_policies(evaluations).savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG")


def test_inline_svg(evaluations, read_page):
    text = inline_svg(figures.by_relation(evaluations, {"r20": "<script> $5_ 村"}), "what it <shows>", "one")
    page = read_page(text)
    assert page.elements[0][0] == "svg"
    assert page.elements[0][1]["role"] == "img"
    assert "what it <shows>" in page.words
    assert "<script> $5_ 村 (10%)" in page.words
    assert "currentColor" in text
    assert figures.INK not in text
    assert all(attributes["id"].startswith("one-") for _, attributes in page.elements if "id" in attributes)


def test_the_same_data_give_the_same_svg(evaluations):
    first, second = (inline_svg(figures.tie_policies(evaluations), "ties", "ties") for _ in range(2))
    assert first == second
