"""A run is trained by one process at a time, and by the next one as soon as that has ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from capse.errors import RunError
from capse.runs.folder import RunFolder
from capse.runs.lock import only_trainer

HOLD = """
import sys
from capse.runs.folder import RunFolder
from capse.runs.lock import only_trainer
with only_trainer(RunFolder(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    RunFolder(tmp_path).recipe.write_text("format: 2\n", encoding="utf-8")
    return RunFolder(tmp_path)


def test_a_run_is_held_by_one_and_let_go(run: RunFolder) -> None:
    with only_trainer(run), pytest.raises(RunError) as error, only_trainer(run):
        pass
    assert error.value.message == f"another process is training the run in {run.path}"
    with only_trainer(run):
        run.stored_recipe()  # reading does not let go
        with pytest.raises(RunError), only_trainer(run):
            pass
    assert [path.name for path in run.path.iterdir()] == ["recipe.yaml"]


def test_a_killed_process_lets_go(run: RunFolder) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ
    )
    assert process.stdout is not None
    assert process.stdin is not None
    with process.stdout, process.stdin:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(RunError, match="another process"), only_trainer(run):
            pass
        process.kill()
        process.wait()
    with only_trainer(run):
        pass
