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

Sources = tuple[tuple[str, float, int], ...]  # name, time and size of each file


def sources_of(folder: Path) -> Sources:
    """The files that a function of that folder may have inlined."""
    return tuple((path.name, path.stat().st_mtime, path.stat().st_size) for path in sorted(folder.glob("*.py")))


_SOURCES = sources_of(Path(__file__).parent)


def cached(function: Callable[..., Any], *, any_order: bool = False, sources: Sources | None = None) -> Any:
    """``function`` compiled and kept on disk until one of its ``sources``, this folder's, changes.

    By itself numba would look at the function's own file only, not at those of the loops that it inlines, and would
    serve stale machine code. The stamp that it compares is a private attribute: where there is none, nothing is kept.
    """
    compiler: Any = partial(njit, nogil=True, error_model="numpy", fastmath=ANY_ORDER if any_order else False)
    compiled = compiler(cache=True)(function)
    kept: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if not hasattr(kept, "_source_stamp"):
        return compiler()(function)
    kept._source_stamp = _SOURCES if sources is None else sources
    return compiled


@inlined
def aligned(count, dtype):  # type: ignore[no-untyped-def]
    """Zeros that begin with a cache line, so that no group of lanes lies across two."""
    longer = np.zeros(count + CACHE_LINE, dtype)
    start = -longer.ctypes.data % CACHE_LINE // longer.itemsize
    return longer[start : start + count]
