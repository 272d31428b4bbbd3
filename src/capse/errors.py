"""The exceptions that users see.

CapseError                 something the user can put right; the command line prints one line and exits with status 2
├── DataError              a file of triples, names or vectors cannot be read as what it claims to be
├── UnknownNameError       an entity, relation, dataset, model or metric that does not exist, with the nearest that do
├── SettingsError          a recipe, a --set option or an argument that makes no sense
├── RunError               a run folder that is missing, damaged, unfinished or of another version
│   └── DivergenceError    a training whose loss or scores are no numbers any more
├── StorageError           the disk is full or a folder cannot be written
├── StoreError             the service's database is gone, busy, full, damaged, newer than the program or refuses it
├── EventError             an event that cannot be stored
│   └── EventConflictError an event's id that stands for another event already
├── DownloadError          a dataset could not be fetched, or is not what it should be
├── ProcessError           of processes that work together one is gone, or does not answer in time
├── ExtensionError         another package registers something that cannot be used
└── MissingExtraError      an optional dependency is needed and absent
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Literal


class CapseError(Exception):
    """Something the user can put right.

    ``message`` says what is wrong and where, ``remedy`` what to do about it; together they are one line.

    >>> print(CapseError("train.tsv, line 3: two columns instead of three", "separate the columns with tabs"))
    train.tsv, line 3: two columns instead of three: separate the columns with tabs
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        self.message = message
        self.remedy = remedy
        super().__init__(f"{message}: {remedy}" if remedy else message)


class DataError(CapseError):
    """A file of triples, names or vectors cannot be read as what it claims to be."""


class SettingsError(CapseError):
    """A recipe, a ``--set`` option or an argument that makes no sense."""


class RunError(CapseError):
    """A run folder that is missing, damaged, unfinished or of another version."""


class DivergenceError(RunError):
    """A training whose loss, weights or scores are no numbers any more."""


class StorageError(CapseError):
    """The disk is full or a folder cannot be written."""


StoreFailure = Literal["gone", "busy", "full", "damaged", "newer", "refused"]


class StoreError(CapseError):
    """The service's database cannot be used; ``kind`` says why.

    ``temporary`` failures end by themselves or with what an operator does elsewhere; then the same call succeeds.
    """

    def __init__(self, kind: StoreFailure, message: str, remedy: str) -> None:
        super().__init__(message, remedy)
        self.kind = kind
        self.temporary = kind in ("gone", "busy", "full")


class StreamError(CapseError):
    """A stream of events cannot be read; ``passes`` says whether to wait may help."""

    def __init__(self, message: str, remedy: str, *, passes: bool = True) -> None:
        super().__init__(message, remedy)
        self.passes = passes


class EventError(CapseError):
    """An event that cannot be stored."""


class EventConflictError(EventError):
    """An event's id that stands for another event already."""

    def __init__(self, id: str) -> None:
        super().__init__(f"event {id!r} was sent before with another content", "give every event an id of its own")
        self.id = id


class DownloadError(CapseError):
    """A dataset could not be fetched, or is not what it should be."""


class UnknownNameError(CapseError):
    """A name that does not exist.

    >>> print(UnknownNameError("relation", "boarders", ["borders", "capital", "speaks"]))
    unknown relation 'boarders': did you mean 'borders'?
    """

    def __init__(self, kind: str, name: str, known: Iterable[str] = (), remedy: str = "") -> None:
        near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
        if near:
            remedy = "did you mean " + " or ".join(repr(n) for n in near) + "?"
        super().__init__(f"unknown {kind} {name!r}", remedy)
        self.nearest = near


class MissingExtraError(CapseError):
    """An optional dependency is needed and absent."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional dependency that is not installed", f"pip install 'capse[{extra}]'")


class ProcessError(CapseError):
    """Of processes that work together one is gone, or does not answer in time.

    ``speaks`` is the one of those that are left who says so.
    """

    def __init__(self, message: str, remedy: str, *, speaks: bool = True) -> None:
        super().__init__(message, remedy)
        self.speaks = speaks


class ExtensionError(CapseError):
    """Another package registers something through an entry point that cannot be used."""
