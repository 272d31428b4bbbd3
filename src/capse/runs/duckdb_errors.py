"""What errors of DuckDB mean to a person; judged by their names, as DuckDB may not be there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from capse.errors import StorageError

_MORE_SPACE = "free space where the output is written, or choose another place with --out"


@contextmanager
def duckdb_errors(more_memory: str) -> Iterator[None]:
    """Raise them as a person should read them; ``more_memory`` says how to allow more."""
    try:
        yield
    except Exception as error:
        remedies = dict.fromkeys(("IOException", "TransactionException"), _MORE_SPACE)  # the second at a commit
        meant = _meaning(error, remedies | {"OutOfMemoryException": f"{more_memory}; or {_MORE_SPACE}"})
        if meant is None:
            raise
        raise meant from error


def _meaning(error: Exception, remedies: dict[str, str]) -> BaseException | None:
    kind, said = type(error), str(error).partition("\n")[0]
    if kind.__name__ == "InterruptException" or (kind is RuntimeError and said == "Query interrupted"):
        return KeyboardInterrupt()  # Ctrl-C while DuckDB was at work
    if "duckdb" in kind.__module__ and kind.__name__ in remedies:
        return StorageError(f"DuckDB ran out of memory or disk ({said})", remedies[kind.__name__])
    return None
