"""Whatever a file holds, `capse data import` imports it or says in one line why not."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from capse.cli import main
from capse.graph.dataset import load_graph
from tests.graph.readers.import_files import imports

_ANY = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


def check_import(name: str, content: bytes, options: list[str]) -> int:
    """Import a file; its exit status is 0 with a graph that can be loaded, or 2 with one line and nothing written."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, name), Path(folder, "out")
        path.write_bytes(content)
        errors = io.StringIO()
        with (
            contextlib.redirect_stderr(errors),
            contextlib.redirect_stdout(io.StringIO()),
            pytest.raises(SystemExit) as exit,
        ):
            main(["data", "import", str(path), "--out", str(out), *options])
        said = errors.getvalue()
        assert exit.value.code in (0, None, 2), said
        assert "Traceback" not in said
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", said), "control characters reach the terminal"
        if exit.value.code:
            assert len(re.findall("(?m)^(?:error|Error):? ", said)) == 1 or "Usage: " in said, said
            assert [left.name for left in Path(folder).iterdir()] == [path.name]
        else:
            assert len(load_graph(out).train)
            assert {left.name for left in Path(folder).iterdir()} == {path.name, "out"}
        return int(exit.value.code or 0)


@settings(max_examples=200, suppress_health_check=_ANY)
@given(imports())
def test_no_file_is_imported_by_half_or_shows_a_traceback(call: tuple[str, bytes, list[str]]) -> None:
    check_import(*call)


@pytest.mark.soak
@settings(max_examples=10_000, suppress_health_check=_ANY, derandomize=False, phases=[Phase.generate, Phase.shrink])
@given(imports())
def test_ten_thousand_files(call: tuple[str, bytes, list[str]]) -> None:
    check_import(*call)
