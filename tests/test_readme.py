"""The README is run: every command and every snippet, in a fresh folder; `make` and `pip` are checked, not run."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from capse.models import MODELS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def examples():
    """tools/markdown_examples.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("readme_examples", ROOT / "tools" / "markdown_examples.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def section(title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL)[1]


def test_every_example_runs(examples, tmp_path):
    assert examples.run_page(ROOT / "README.md", tmp_path) >= 10
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert (tmp_path / "runs" / "capse" / "model.safetensors").is_file()


def test_the_quick_start_has_five_lines(examples):
    (block,) = [block for block in examples.blocks(README) if block.language == "python"]
    assert len([line for line in block.text.splitlines() if line.strip()]) == 5


def test_the_two_commands_come_before_all_others(examples):
    first = next(block for block in examples.blocks(README) if block.language == "console")
    assert [command.words for command in examples.commands(first)] == [["make", "demo"], ["make", "test"]]


def test_every_target_that_is_mentioned_exists(examples):
    for target in re.findall(r"`make ([a-z-]+)`", README):
        examples.check_command(["make", target])


def test_every_model_has_a_row_with_its_paper():
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", section("Models"), re.MULTILINE))
    assert list(rows) == list(MODELS)
    for name, source in rows.items():
        authors, venue = source.split(", ")
        citation = MODELS[name].citation
        assert citation.startswith(authors), name
        assert citation.endswith(venue), name


def test_every_folder_is_shown():
    shown = set(re.findall(r"^  (\w+)(?:/|\.py) ", section("How it is organised"), re.MULTILINE))
    there = {path.name for path in (ROOT / "src" / "capse").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert shown == there | {"triples"}
    for folder in re.findall(r"^(\w+)/ ", section("How it is organised"), re.MULTILINE):
        assert (ROOT / folder).is_dir(), folder


def test_results_have_their_place():
    """The recorded figures stand between two comments, so that they can be replaced without touching the text."""
    assert re.search(r"<!-- results -->\n.+\n<!-- /results -->", section("A real result"), re.DOTALL)
