"""JSON, text and HTML of planted results, compared with files; to write these anew after a change that is meant:

python tests/paper/report/test_golden.py
"""

import json
import os
import re
import sys
import tempfile
from pathlib import Path

import pytest

from capse_paper.findings.collect import collect
from capse_paper.plans.graphs import PLAN
from capse_paper.recorded.runs import Results
from capse_paper.report.blocks import blocks, claim_block, target_block
from capse_paper.report.page import render

GOLDEN = Path(__file__).parent / "golden"


def texts(results):
    """What each file holds, but for drawings, which are matplotlib's, and settings, which are the recipes'."""
    found = collect(results, PLAN)
    shown = [block for part, rows in found.rows.items() for block in blocks(part, rows)]
    shown += [*map(claim_block, found.claims), target_block(found.outcomes)]
    page = re.sub(r"<svg.*?</svg>", "<svg></svg>", render(found), flags=re.DOTALL)
    for part in (r"<style>.*?</style>\n", r"<details>\n<summary>Settings of .*?</details>\n"):
        page = re.sub(part, "", page, flags=re.DOTALL)
    return {
        "table2.json": json.dumps(rounded(found.to_json("table2")), indent=1) + "\n",
        "all.txt": "\n\n".join(block.to_text() for block in shown) + "\n",
        "report.html": re.sub(r"\n\n+", "\n", page),
    }


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return round(value, 9) if isinstance(value, float) else value


@pytest.fixture
def no_data(monkeypatch, tmp_path):
    """The data itself is not looked at, wherever it may be."""
    monkeypatch.delenv("CAPSE_DATA", raising=False)
    monkeypatch.setenv("CAPSE_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("no_data")
@pytest.mark.parametrize("name", ["table2.json", "all.txt", "report.html"])
def test_is_as_stored(planted_results, name):
    stored = (GOLDEN / name).read_text(encoding="utf-8")
    assert texts(planted_results)[name] == stored, f"if that is meant: python {Path(__file__).name}"


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from conftest import Writer, plant  # type: ignore[import-not-found] # in the folder above, as this is a program

    with tempfile.TemporaryDirectory() as scratch:
        os.environ.pop("CAPSE_DATA", None)
        os.environ["CAPSE_CACHE"] = scratch
        folder = Path(scratch) / "results"
        (folder / "runs").mkdir(parents=True)
        plant(Writer(folder))
        GOLDEN.mkdir(exist_ok=True)
        for name, text in texts(Results(folder)).items():
            (GOLDEN / name).write_text(text, encoding="utf-8")
