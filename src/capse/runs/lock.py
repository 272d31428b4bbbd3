"""One process at a time trains a run."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from capse.errors import RunError
from capse.runs.atomic import storage_errors
from capse.runs.folder import RunFolder


@contextmanager
def only_trainer(run: RunFolder) -> Iterator[None]:
    """Hold a run, or raise if another training does. The hold ends with the process, however it ends.

    What is locked is ``recipe.yaml``, which is written once, so that no other file is left in the folder.
    """
    with storage_errors(run.recipe):
        file = run.recipe.open("a")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            remedy = "wait until that has ended, or choose another --out"
            raise RunError(f"another process is training the run in {run.path}", remedy) from error
        yield
