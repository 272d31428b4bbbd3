"""A small graph with hostile labels, runs trained on it, and a reader that insists on well-formed pages."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from capse.experiments.fit import fit
from capse.graph.dataset import Graph

HOSTILE = "<script>alert('x')</script> & \"$5_{}$\" 村"
VOID = {"meta"}


class Page(HTMLParser):
    """Everything a test asks of a page; raises where elements are not properly nested."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.words = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return "\n".join(self.words)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="session")
def read_page():
    return Page


@pytest.fixture(scope="session")
def hostile_graph():
    """A ring of 12 entities under two relations, one of them with a label that must not get out of its cell."""
    names = [f"e{i:02}" for i in range(11)] + [HOSTILE]
    near = [(names[i], HOSTILE, names[(i + 1) % 12]) for i in range(12)]
    far = [(names[i], "far", names[(i + 5) % 12]) for i in range(12)]
    return Graph.from_triples(near[:8] + far[:8], near[8:10] + far[8:10], near[10:] + far[10:], name="<i>ring</i>")


@pytest.fixture(scope="session")
def runs(hostile_graph, tmp_path_factory):
    """Two trained runs of different models."""
    folder = tmp_path_factory.mktemp("runs")
    options = ["model.dim=8", "training.epochs=4", "validation.every=2"]
    for model in ("transe", "capse"):
        fit(hostile_graph, model=model, out=folder / model, overrides=options)
    return [folder / "transe", folder / "capse"]
