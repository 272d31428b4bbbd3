"""What the paper prints about the data, counted in the data itself."""

import numpy as np
import pytest

from capse.graph.dataset import load_graph
from capse_paper.findings import paper
from capse_paper.findings.rows import table1


@pytest.mark.usefixtures("real_data")
def test_table_1():
    for row in table1():
        for key in ("entities", "relations", "train", "valid", "test"):
            assert row["ours"][key] == row["paper"][key]


@pytest.mark.usefixtures("real_data")
def test_relation_categories_of_fb15k_237():
    (row,) = (row for row in table1() if row["dataset"] == "fb15k-237")
    assert row["ours"]["category_relations"] == {"1-1": 17, "1-M": 26, "M-1": 81, "M-M": 113}
    shares = {name: round(100 * share, 1) for name, share in row["ours"]["category_test_share"].items()}
    assert shares == {"1-1": 0.9, "1-M": 6.3, "M-1": 20.4, "M-M": 72.3}  # the paper prints 20.5 for M-1
    printed = {name: round(100 * share, 1) for name, share in row["paper"]["category_test_share"].items()}
    assert printed == shares | {"M-1": 20.5}


@pytest.mark.usefixtures("real_data")
def test_figure_3s_shares_of_the_test_triples():
    graph = load_graph("wn18rr")
    counts = np.bincount(graph.test[:, 1], minlength=len(graph.relations))
    shares = {
        label.removeprefix("_"): round(float(count) / len(graph.test), 3)
        for label, count in zip(graph.relations.labels, counts, strict=True)
    }
    assert shares == paper.SHARES


def test_figures_are_fractions_and_complete():
    for rows in paper.RESULTS.values():
        assert list(rows) == ["wn18rr", "fb15k-237"]
        for figures in rows.values():
            assert all(value is None or 0 < value < 1 for metric, value in figures.items() if metric != "mr")
    assert len(paper.SHARES) == 11
    assert set(paper.SYMMETRIC) < set(paper.SHARES)
