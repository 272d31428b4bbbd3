"""The README is run: every command and every snippet, in a fresh folder; `make` and `pip` are checked, not run."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def examples():
    """tools/markdown_examples.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("readme_examples", ROOT / "tools" / "markdown_examples.py")
    assert spec
    assert spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_every_example_runs(examples, tmp_path):
    assert examples.run_page(ROOT / "README.md", tmp_path) >= 5  # blocks
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert (tmp_path / "runs" / "capse" / "model.safetensors").is_file()


def test_the_quick_start_has_five_lines():
    (block,) = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert len([line for line in block.splitlines() if line.strip()]) == 5


def test_the_two_commands_come_before_all_others(examples):
    first = re.findall(r"^```console\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[0]
    assert examples.commands(first) == [(["make", "demo"], ""), (["make", "test"], "")]


def test_every_target_that_is_mentioned_exists(examples):
    for target in re.findall(r"`make ([a-z-]+)`", README):
        examples.check_command(["make", target])


def test_it_is_short_and_begins_with_the_installation():
    lines = README.splitlines()
    assert len(lines) <= 130
    assert lines.index("$ make demo") < 25
