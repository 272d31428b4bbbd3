"""Several processes divide the questions, and each has the ranks of one process, ties and errors included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.evaluation.in_processes import error_of, rank_some
from tests.together import ends_of, start_together


@pytest.mark.parametrize("count", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_ranks_are_those_of_one(tmp_path: Path, count: int) -> None:
    ends = ends_of(start_together(count, "-m", "tests.evaluation.in_processes", tmp_path / "ranks"))
    assert [status for status, *_ in ends] == [0] * count, ends
    alone = rank_some(None)
    assert alone.equal.any()
    for rank in range(count):
        found = np.load(tmp_path / f"ranks-{rank}.npz")
        for name in ("greater", "equal", "candidates"):
            np.testing.assert_array_equal(found[name], getattr(alone, name))
        assert str(found["error"]) == error_of(None) != ""
