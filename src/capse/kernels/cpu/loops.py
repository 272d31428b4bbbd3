"""How the scoring loops are compiled and shared out among threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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


def in_threads(function: Callable[..., None], threads: int, *arguments: Any) -> None:
    """Call ``function(share, shares, *arguments)`` for each of ``threads`` shares, all at once."""
    if threads == 1:
        function(0, 1, *arguments)
        return
    with ThreadPoolExecutor(threads) as pool:
        for share in [pool.submit(function, share, threads, *arguments) for share in range(threads)]:
            share.result()
