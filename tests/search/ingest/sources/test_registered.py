"""A log source of another package: the example of the docstring, installed and used by the command."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from capse.cli import main
from capse.search.ingest import sources
from capse.search.ingest.sources import SOURCES, detect
from capse.search.logs.search_log import SearchLog

IMPORTS = """
from capse.errors import DataError
from capse.search.ingest.staging import files_of
from capse.search.times import parse_time
"""
LINES = """\
1714550400 ann jaguar d1,d2,d3 d2
1714550460.5 bob jaguar d2,d1 d1
1714550460500 bob jaguar d2,d1 d1
nonsense
"""


@pytest.fixture
def pairs(install_package: Callable[[str, str, str], None]) -> Iterator[None]:
    example = str(sources.__doc__).partition("clicked``::\n")[2].partition("From then on")[0]
    install_package("capse.log_sources", "pairs = capse_pairs", IMPORTS + dedent(example))
    SOURCES.__dict__.pop("outside", None)
    yield
    SOURCES.__dict__.pop("outside", None)
    SOURCES._loaded.pop("pairs", None)


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as exit:
        main([str(argument) for argument in arguments])
    return int(exit.value.code or 0)


@pytest.mark.usefixtures("pairs")
@pytest.mark.parametrize("chosen", [[], ["--format", "pairs"]])
def test_the_example_of_the_docstring_is_a_source(chosen: list[str], tmp_path: Path) -> None:
    (tmp_path / "log.pairs").write_text(LINES)
    assert detect([tmp_path / "log.pairs"]) == "pairs"
    assert call("search", "ingest", tmp_path / "log.pairs", "--out", tmp_path / "log", *chosen) == 0
    log = SearchLog.load(tmp_path / "log")
    assert [log.users[user] for user in log.user] == ["ann", "bob"]
    assert log.time.tolist() == [1714550400000000, 1714550460500000]
    assert log.satisfied.tolist() == [False, True, False, False, True]
    milliseconds, nonsense = map(json.loads, (tmp_path / "log" / "quarantine.jsonl").read_text().splitlines())
    assert "can only be milliseconds" in milliseconds["reason"]
    assert nonsense["raw"] == "nonsense"


@pytest.mark.usefixtures("pairs")
def test_the_command_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(SOURCES)[-1] == "pairs"
    importlib.reload(importlib.import_module("capse.cli.search.ingest"))  # its help is written at import
    assert call("search", "ingest", "--help") == 0
    assert "pairs" in capsys.readouterr().out
    assert call("search", "ingest", tmp_path, "--out", tmp_path / "log", "--format", "x") == 2
    assert f"choose one of {', '.join(SOURCES)}" in capsys.readouterr().err
    assert call("search", "ingest", tmp_path, "--out", tmp_path / "log") == 2
    assert f"name it with --format: {', '.join(SOURCES)}" in capsys.readouterr().err
