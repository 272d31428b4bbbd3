"""A format that another package registers is a format like our own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from capse.errors import DataError
from capse.graph import readers
from capse.graph.dataset import load_graph
from capse.graph.link_prediction.queries import read_queries
from capse.graph.readers.formats import GraphFormat
from capse.registry import Registry

CODE = """
from capse.graph.readers.files import lines
from capse.graph.readers.formats import GraphFormat

class Pipes(GraphFormat):
    def rows(self, path):
        for number, line in lines(path):
            yield number, [field or None for field in line.strip().split("|")]

PIPES = Pipes()
"""


@pytest.fixture
def pipes(install_package: Callable[[str, str, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    install_package("capse.graph_formats", ".pipes = capse_pipes:PIPES", CODE)
    builtin = {suffix: entry.value for suffix, entry in readers.READERS.builtin.items()}
    fresh = Registry[GraphFormat](readers.READERS.kind, readers.READERS.group, builtin)
    monkeypatch.setattr(readers, "READERS", fresh)


@pytest.mark.usefixtures("pipes")
def test_it_is_read_as_triples_and_as_queries(tmp_path: Path) -> None:
    (tmp_path / "train.pipes").write_text("a|r|b\nb|r|c\n")
    graph = load_graph(tmp_path)
    assert graph.entities.labels == ["a", "b", "c"]
    (tmp_path / "queries.pipes").write_text("a|r|\n|r|c\n")
    np.testing.assert_array_equal(read_queries(tmp_path / "queries.pipes", graph), [[0, 0, -1], [-1, 0, 2]])


@pytest.mark.usefixtures("pipes")
def test_its_rows_are_checked_like_ours(tmp_path: Path) -> None:
    (tmp_path / "train.pipes").write_text("a|r|b\nb|c\n")
    with pytest.raises(DataError, match=r"train\.pipes, line 2: 2 columns instead of 3"):
        load_graph(tmp_path)
    (tmp_path / "train.pipes").write_text("a|r|b\nb||c\n")
    with pytest.raises(DataError, match=r"train\.pipes, line 2: no relation"):
        load_graph(tmp_path)


@pytest.mark.usefixtures("pipes")
def test_errors_list_it(tmp_path: Path) -> None:
    (tmp_path / "train.unknown").write_text("")
    with pytest.raises(DataError, match=r"use one of .*\.jsonld \.pipes"):
        load_graph(tmp_path)


@pytest.mark.usefixtures("pipes")
@pytest.mark.parametrize("command", [["data", "import"], ["predict"]])
def test_the_help_lists_it(command: list[str]) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    help_text = subprocess.run(
        [sys.executable, "-m", "capse", *command, "--help"], check=True, capture_output=True, text=True, env=environment
    ).stdout
    assert "jsonld pipes" in " ".join(help_text.split())


def test_formats_are_imported_when_they_are_used() -> None:
    code = "import capse.graph, sys; sys.exit('capse.graph.readers.rdf' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
