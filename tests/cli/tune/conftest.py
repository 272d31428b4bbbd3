"""A folder with data and grids, and the command."""

from __future__ import annotations

from functools import partial

import pytest

from capse.graph.writing import save_graph
from tests.cli.tune.processes import GRID


@pytest.fixture
def work(planted, tmp_path, monkeypatch):
    """A folder with data and two grids, one of them long enough to be stopped, as the current folder."""
    save_graph(planted, tmp_path / "planted")
    (tmp_path / "quick.yaml").write_text(GRID % 2)
    (tmp_path / "long.yaml").write_text(GRID % 80)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def capse(run_command):
    """Runs ``capse tune ...``."""
    return partial(run_command, "tune")
