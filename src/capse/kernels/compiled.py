"""Loops compiled by numba where it is installed; where it is not, callers take their plain path."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

numba: Any = import_module("numba") if find_spec("numba") else None
prange = numba.prange if numba else range


def compiled(function: Callable[..., Any]) -> Any:
    """``function`` as machine code for `in_torchs_threads`, which shares out its ``prange`` loops; None without numba.

    Compiled at the first call and kept on disk. No fast-math: sums keep their order and NaN stays NaN.
    """
    return numba.njit(parallel=True, nogil=True, cache=True)(function) if numba else None


def in_torchs_threads(loops: Any, *arguments: Any) -> Any:
    """Call what `compiled` made, in as many threads as torch has, and leave torch as many.

    Numba starts its threads by telling OpenMP how many the machine has, which is torch's number too from then on: a
    process that was given one of many would spread over all of them.
    """
    threads = torch.get_num_threads()
    try:
        numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
        return loops(*arguments)
    finally:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)


def compiled_for_one_thread(function: Callable[..., Any], *, any_order: bool = False, inline: bool = False) -> Any:
    """The same for a function that does its whole work in the thread that calls it.

    With ``any_order`` the compiler may add up several lanes of a sum at a time: the same bits in every call, but not
    those of the loop as written. A division by zero gives what IEEE says: to raise an error there would keep the
    compiler from vector instructions. With ``inline`` the function becomes part of those that call it: on tables of
    separate rows a call costs half as much time again.
    """
    if not numba:
        return None
    fastmath, inlining = {"reassoc", "contract"} if any_order else False, "always" if inline else "never"
    return numba.njit(nogil=True, cache=True, fastmath=fastmath, error_model="numpy", inline=inlining)(function)
