"""How the scoring loops are compiled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

# No fast-math: sums keep their order, and NaN stays NaN.
inlined = njit(nogil=True, error_model="numpy")

_SOURCES = tuple(
    (path.name, path.stat().st_mtime, path.stat().st_size) for path in sorted(Path(__file__).parent.glob("*.py"))
)


def cached(function: Callable[..., Any]) -> Any:
    """``function`` compiled and kept on disk until a file of this folder changes."""
    compiled: Any = njit(nogil=True, error_model="numpy", cache=True)(function)
    # By itself numba would look at the function's own file only, not at those of the loops that it inlines.
    compiled._cache._cache_file._source_stamp = _SOURCES
    return compiled
