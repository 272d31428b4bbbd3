"""The wheel, as somebody has it who has no repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(tmp_path):
    command = [sys.executable, ROOT / "tools" / "check_distribution.py", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
