"""The picture of one list before and after says what moved where."""

from __future__ import annotations

import numpy as np

from capse.reports.figures import COLOURS
from tools.draw_reranking import before_and_after

ROWS = [
    {"document": "src/" + "deep/" * 12 + "chosen.py", "position": 3, "rank": 1, "chosen": True},
    {"document": "a $title$ with words", "position": 1, "rank": 2, "chosen": False},
    {"document": "other", "position": 2, "rank": 3, "chosen": False},
]


def test_every_document_is_a_line_from_its_old_place_to_its_new_one(tmp_path):
    figure = before_and_after("“a query”", ROWS, ["one", "two"])
    (axes,) = figure.axes
    assert [tuple(np.asarray(line.get_ydata())) for line in axes.lines] == [(3, 1), (1, 2), (2, 3)]
    assert [line.get_color() == COLOURS[4] for line in axes.lines] == [True, False, False]
    texts = [text.get_text() for text in axes.texts]
    assert "a $title$ with words  1" in texts
    assert "2  a $title$ with words" in texts
    assert sum(text.endswith("chosen.py") and len(text) < 60 for text in texts) == 1
    assert "one, two" in figure.get_supxlabel()
    figure.savefig(tmp_path / "picture.svg")
