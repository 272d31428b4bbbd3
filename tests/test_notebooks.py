"""The notebooks hold: they run from beginning to end, and what the site shows of them is what they printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def name(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_shows_what_it_printed(path):
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), "run it from the top"
    assert {output.output_type for cell in cells for output in cell.outputs} <= {
        "stream", "display_data", "execute_result",
    }  # fmt: skip
    assert not re.search(r"/(home|root|tmp|work)/", path.read_text(encoding="utf-8")), "a path of the machine it ran on"


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_runs(path, tmp_path):
    NotebookClient(read(path), timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
