"""Loops compiled by numba where it is installed; where it is not, callers take their plain path."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

numba: Any = import_module("numba") if find_spec("numba") else None
prange = numba.prange if numba else range


def compiled(function: Callable[..., Any], *, any_order: bool = False) -> Any:
    """``function`` as machine code, its ``prange`` loops run by all threads; None without numba.

    Compiled at the first call and kept on disk. NaN stays NaN, and sums keep their order, unless ``any_order`` lets the
    compiler add up several lanes of a sum at a time: the same bits in every call, but not those of the loop as written.
    """
    if not numba:
        return None
    fastmath = {"reassoc", "contract"} if any_order else False
    return numba.njit(parallel=True, nogil=True, cache=True, fastmath=fastmath)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """A small function for use inside `compiled` ones."""
    return numba.njit(inline="always")(function) if numba else None
