"""How the scoring loops are compiled, and where their arrays begin."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

ANY_ORDER = {"reassoc", "contract"}  # several lanes of a sum may be added at a time: the same bits in every call

# No fast-math: sums keep their order, and NaN stays NaN.
inlined = njit(nogil=True, error_model="numpy")
inlined_in_any_order = njit(nogil=True, error_model="numpy", fastmath=ANY_ORDER)

CACHE_LINE = 64  # bytes

_SOURCES = tuple(
    (path.name, path.stat().st_mtime, path.stat().st_size) for path in sorted(Path(__file__).parent.glob("*.py"))
)


def cached(function: Callable[..., Any], *, any_order: bool = False) -> Any:
    """``function`` compiled and kept on disk until a file of this folder changes.

    By itself numba would look at the function's own file only, not at those of the loops that it inlines, and would
    serve stale machine code. The stamp that it compares is a private attribute: where there is none, nothing is kept.
    """
    compiler: Any = partial(njit, nogil=True, error_model="numpy", fastmath=ANY_ORDER if any_order else False)
    compiled = compiler(cache=True)(function)
    kept: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if not hasattr(kept, "_source_stamp"):
        return compiler()(function)
    kept._source_stamp = _SOURCES
    return compiled


@inlined
def aligned(count, dtype):  # type: ignore[no-untyped-def]
    """Zeros that begin with a cache line, so that no group of lanes lies across two."""
    longer = np.zeros(count + CACHE_LINE, dtype)
    start = -longer.ctypes.data % CACHE_LINE // longer.itemsize
    return longer[start : start + count]
