"""How the scoring loops are compiled, and where their arrays begin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

# No fast-math: sums keep their order, and NaN stays NaN.
inlined = njit(nogil=True, error_model="numpy")

CACHE_LINE = 64  # bytes

_SOURCES = tuple(
    (path.name, path.stat().st_mtime, path.stat().st_size) for path in sorted(Path(__file__).parent.glob("*.py"))
)


def cached(function: Callable[..., Any]) -> Any:
    """``function`` compiled and kept on disk until a file of this folder changes."""
    compiled: Any = njit(nogil=True, error_model="numpy", cache=True)(function)
    # By itself numba would look at the function's own file only, not at those of the loops that it inlines.
    compiled._cache._cache_file._source_stamp = _SOURCES
    return compiled


@inlined
def aligned(count, dtype):  # type: ignore[no-untyped-def]
    """Zeros that begin with a cache line, so that no group of lanes lies across two."""
    room = np.zeros(count + CACHE_LINE, dtype)
    start = -room.ctypes.data % CACHE_LINE // room.itemsize
    return room[start : start + count]
