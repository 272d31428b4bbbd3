"""How the loops of this folder are compiled; without numba they are what they say, in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from capse.kernels.compiled import numba

if numba:
    from capse.kernels.cpu.loops import cached, inlined, sources_of

    _SOURCES = sources_of(Path(__file__).parent)


def helper(function: Callable[..., Any]) -> Any:
    """A loop that others of this folder call."""
    return inlined(function) if numba else function


def entry(function: Callable[..., Any]) -> Any:
    """A loop that is called from outside: kept on disk until a file of this folder changes."""
    return cached(function, sources=_SOURCES) if numba else function
