"""Control characters in labels never reach the terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import capse
from capse.cli.output import printable
from capse.experiments.recipe import Recipe

RunCommand = Callable[..., tuple[int, str, str]]

EVIL = "red\x1b[31m\x07\x9b1mö"
SEEN = "red\\u001b[31m\\u0007\\u009b1mö"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evil")
    pairs = [(EVIL, "b"), ("b", EVIL), ("b", "c"), ("c", "b")]  # a symmetric relation, which `data info` names
    rows = [(head, "likes\x1b]0;", tail) for head, tail in pairs]
    graph = capse.Graph.from_triples(rows, rows, rows, name=EVIL)
    capse.fit(
        graph, Recipe.resolve("demo-transe", overrides=["training.epochs=1", "validation.every=1"]), out=folder / "run"
    )
    capse.save_graph(graph, folder / "data")
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ["predict", "run", "--relation", "likes\x1b]0;", "--head", "b"],
        ["predict", "run", "--relation", "likes\x1b]0;", "--head", EVIL, "--json"],
        ["explain", "run", "--head", EVIL, "--relation", "likes\x1b]0;", "--tail", "b"],
        ["explain", "run", "--head", EVIL, "--relation", "likes\x1b]0;", "--tail", "b", "--json"],
        ["evaluate", "run"],
        ["evaluate", "run", "--json"],
        ["data", "info", "data"],
        ["data", "info", "data", "--json"],
        ["predict", "run", "--relation", EVIL, "--head", "b"],
        ["data", "info", EVIL],
    ],
)
def test_no_command_prints_them(
    run: Path, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(run)
    status, output, errors = run_command(*arguments)
    assert status in (0, 2)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", output + errors)
    assert "\\u001b" in output + errors or "\\x1b" in errors
    if "--json" in arguments:
        json.loads(output)


def test_what_turns_the_direction_of_text_is_escaped() -> None:
    assert printable("a\u202eb\u2066c\u200f") == "a\\u202eb\\u2066c\u200f"


def test_what_is_escaped_is_right_in_json_too() -> None:
    assert printable(EVIL) == SEEN
    assert json.loads(printable(json.dumps(EVIL, ensure_ascii=False))) == EVIL
    assert printable("two\nlines\tand é 漢字") == "two\nlines\tand é 漢字"
