"""A record names all that its last digits may depend on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version

import pytest

from capse.runs.records import provenance, versions


def test_libraries_are_named() -> None:
    found = versions()
    for name in ("torch", "numpy", "scipy", "scikit-learn", "lightgbm", "bm25s"):
        assert found[name].partition("+")[0] == version(name).partition("+")[0]
    assert provenance()["versions"] == found


def test_a_library_that_is_not_there_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capse.runs.records._LIBRARIES", ("numpy", "no-such-library"))
    assert "numpy" in versions()
    assert "no-such-library" not in versions()


@pytest.mark.parametrize("kernel", ["Haswell", "Sandybridge"])
def test_the_blas_and_its_kernels_are_named(kernel: str) -> None:
    code = "import json; from capse.runs.records import versions; print(json.dumps(versions()))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"OPENBLAS_CORETYPE": kernel}, capture_output=True, check=True
    )
    blas = json.loads(done.stdout).get("blas", "")
    if not blas.startswith("openblas"):
        pytest.skip(f"NumPy's BLAS is {blas or 'unknown'}")
    assert blas.split()[1][0].isdigit()
    assert blas.endswith(kernel)
