"""Tensors that nobody changes any more.

A question over all entities takes a few milliseconds. To see whether a table of 40,943 × 100 numbers still is what it
was takes as long again, and whoever serves a model knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_unchanged: ContextVar[bool] = ContextVar("_unchanged", default=False)


@contextmanager
def unchanged() -> Iterator[None]:
    """Within this context, tensors that were scored before hold the same finite numbers; nobody looks again."""
    token = _unchanged.set(True)
    try:
        yield
    finally:
        _unchanged.reset(token)


def is_unchanged() -> bool:
    return _unchanged.get()
