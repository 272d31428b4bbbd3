"""Work shared out among threads that sleep when there is none.

OpenMP's threads spin while they wait, and those of two runtimes, torch's and numba's, on the same cores hold each other
up; compiled loops that let go of Python's lock run as well in plain Python threads.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

SHARES_PER_THREAD = 4  # so that a thread that others hold up does less


def in_threads(
    function: Callable[..., None], threads: int, *arguments: Any, shares_per_thread: int = SHARES_PER_THREAD
) -> None:
    """Call ``function(share, shares, *arguments)`` for every share of the work, as threads become free for it."""
    if threads == 1:
        function(0, 1, *arguments)
        return
    shares = shares_per_thread * threads
    for share in [_pool(threads).submit(function, share, shares, *arguments) for share in range(shares)]:
        share.result()


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child process has none of its parent's threads
